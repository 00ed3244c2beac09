/** The variables that the configuration's code names. */
import { providerDefinitions, knownProviders } from '../../activities/providers/registry.ts';
import { readdirSync, readFileSync } from 'node:fs';

const platform = new URL('../../platform/', import.meta.url);

const ownVariables = [
  'config.ts',
  ...readdirSync(new URL('config/', platform)).map((file) => `config/${file}`),
].flatMap((file) =>
  Array.from(
    readFileSync(new URL(file, platform), 'utf8').matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm),
    ([, name = '']) => name,
  ),
);

/** Names of all variables: of platform/config.ts and its sections, as their sources spell them, and of the providers. */
export const variablesInCode: readonly string[] = [
  ...ownVariables.filter((name) => name !== 'PROVIDER_VARIABLES'),
  ...Object.keys(knownProviders.variables),
];

/** Variables that point all providers at a sandbox. */
export function sandboxedProviders(sandboxUrl: string): Record<string, string> {
  return Object.assign(
    {},
    ...[...providerDefinitions.values()].map(({ sandbox }) => sandbox?.(sandboxUrl)),
  );
}
