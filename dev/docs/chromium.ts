/** Finds the browser for screenshots and tests. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Programs, the preferred one first. Without windows, Chromium takes less than half of the CPU. */
const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];

/** Returns the path of CHROMIUM_PATH, otherwise of a Chromium on the PATH; null if there is none. */
export function findChromium(): string | null {
  const configured = process.env['CHROMIUM_PATH'];
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const candidates = configured
    ? [configured]
    : names.flatMap((name) => folders.map((folder) => join(folder, name)));
  return candidates.find(isExecutable) ?? null;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
