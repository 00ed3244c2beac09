/** Release of this code, and the order of releases. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';

const packageFile = z.object({ version: z.string().regex(/^\d+\.\d+\.\d+$/) });

/** Release of this code, such as `0.2.0`. */
export const release = packageFile.parse(
  JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')),
).version;

/**
 * Oldest release whose processes run, and may start, on the schema of this release. A change of
 * tables or functions that such a process cannot use raises it (docs/deploys.md).
 */
export const oldestServedRelease = '0.1.0';

const numbersOf = (text: string): number[] => text.split('.').map(Number);

/** Returns whether a release is newer than another one. */
export function isNewer(one: string, other: string): boolean {
  const others = numbersOf(other);
  const difference = numbersOf(one).map((number, index) => number - (others[index] ?? 0));
  return (difference.find((number) => number !== 0) ?? 0) > 0;
}
