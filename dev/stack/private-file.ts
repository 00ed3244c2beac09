import { renameSync, writeFileSync } from 'node:fs';

/** Replaces a file atomically. Only the current user can read it. */
export function writePrivateFile(path: string, content: string): void {
  const draft = `${path}.${process.pid}.new`;
  writeFileSync(draft, content, { mode: 0o600, flush: true });
  renameSync(draft, path);
}
