import { renameSync, writeFileSync } from 'node:fs';

/** Replaces a file in one step (readers see the old or the new one), readable by this user alone. */
export function writePrivateFile(path: string, content: string): void {
  const draft = `${path}.${process.pid}.new`;
  writeFileSync(draft, content, { mode: 0o600, flush: true });
  renameSync(draft, path);
}
