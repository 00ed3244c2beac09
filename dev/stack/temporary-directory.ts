import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAlive } from './process-identity.ts';

const prefix = 'studio-gateway-';

/**
 * Makes a directory under `parent` (the system's temporary one by default), named after this
 * process. Directories of earlier processes that are gone (killed before they could tidy up) are
 * removed on the way.
 */
export function makeTemporaryDirectory(label: string, parent: string = tmpdir()): string {
  removeAbandoned(parent);
  return mkdtempSync(join(parent, `${prefix}${process.pid}-${label}-`));
}

function removeAbandoned(parent: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(prefix)) continue;
    const pid = Number.parseInt(name.slice(prefix.length), 10);
    if (!(pid > 0) || isAlive(pid)) continue;
    try {
      rmSync(join(parent, name), { recursive: true, force: true });
    } catch {
      // Another user's, or being removed by a neighbour at this moment: not ours to insist.
    }
  }
}
