/** The variables that the configuration's code names. */
import { readdirSync, readFileSync } from 'node:fs';

const platform = new URL('../../platform/', import.meta.url);

/** Names of all variables of platform/config.ts and its sections, as their sources spell them. */
export const variablesInCode: readonly string[] = [
  'config.ts',
  ...readdirSync(new URL('config/', platform)).map((file) => `config/${file}`),
].flatMap((file) =>
  Array.from(
    readFileSync(new URL(file, platform), 'utf8').matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm),
    ([, name = '']) => name,
  ),
);
