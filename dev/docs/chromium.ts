/** Browser for screenshots and tests: CHROMIUM_PATH, else a Chromium on the PATH. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const names = ['chromium', 'chromium-browser', 'google-chrome'];

/** Path of its executable; null if there is none. */
export function findChromium(): string | null {
  const named = process.env['CHROMIUM_PATH'];
  const places = (process.env['PATH'] ?? '').split(delimiter);
  const candidates = named
    ? [named]
    : places.flatMap((place) => names.map((name) => join(place, name)));
  return candidates.find(isProgram) ?? null;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
