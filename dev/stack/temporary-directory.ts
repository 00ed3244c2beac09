import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAlive } from './process-identity.ts';

const prefix = 'studio-gateway-';

/**
 * Creates a directory under `parent` (default: the system's temporary directory), named after this
 * process. Directories of killed processes are removed.
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
      // It belongs to another user, or another process removes it now.
    }
  }
}
