import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAlive } from './process-identity.ts';

const prefix = 'studio-gateway-';

/**
 * Creates a directory in `parent`, which defaults to the system's temporary directory. Its name
 * contains the id of this process. Removes the directories of processes that no longer run.
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
      // The directory belongs to another user, or another process is removing it.
    }
  }
}
