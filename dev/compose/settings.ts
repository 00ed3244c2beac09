/** Lists the settings in docs/configuration.md, which the deployment files must pass to the processes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { knownProviders } from '../../process/run-process.ts';

const page = join(import.meta.dirname, '..', '..', 'docs', 'configuration.md');

/** Settings with a fixed value in docker-compose.yml (docs/deployment.md). */
export const fixedInCompose: readonly string[] = [
  'API_HOST',
  'API_PORT',
  'METRICS_HOST',
  'METRICS_PORT',
  'STORAGE_DIR',
];

/** Reads the names of all documented settings of the gateway's processes. (Those of the local stack are in italics there.) */
export function documentedSettings(): string[] {
  const rows = readFileSync(page, 'utf8').matchAll(/^\| (`[^|]+) \|/gm);
  const named = [...rows].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([A-Z][A-Z0-9_]+)`/g)].map(([, name = '']) => name),
  );
  const chat = knownProviders.chat.flatMap((name) => [
    `${name.toUpperCase()}_API_KEY`,
    `${name.toUpperCase()}_BASE_URL`,
  ]);
  return [...new Set([...named, ...chat])];
}
