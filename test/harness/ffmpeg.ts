/**
 * Installs ffmpeg from PyPI into `.cache/`: a decoder that shares no code with the gateway or the
 * sandbox.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const version = '0.6.0';
const directory = fileURLToPath(new URL(`../../.cache/imageio-ffmpeg-${version}`, import.meta.url));

/** Returns the path of the program, and installs it if it is missing. */
export async function findFfmpeg(): Promise<string> {
  const binaries = join(directory, 'imageio_ffmpeg', 'binaries');
  if (!existsSync(binaries)) {
    const install = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--target', directory];
    await run('python3', [...install, `imageio-ffmpeg==${version}`]);
  }
  const binary = (await readdir(binaries)).find((name) => name.startsWith('ffmpeg'));
  if (!binary) throw new Error('the package brings no ffmpeg for this platform');
  return join(binaries, binary);
}

/** The result of decoding a whole file. */
export interface Decoded {
  durationSeconds: number;
  /** All error messages of ffmpeg; empty for a valid file. */
  complaints: string;
}

/** Decodes a file or URL from its first to its last frame. */
export async function decode(ffmpeg: string, source: string): Promise<Decoded> {
  const options = ['-v', 'error', '-progress', 'pipe:1'];
  const { stderr, stdout } = await run(ffmpeg, [...options, '-i', source, '-f', 'null', '-']);
  const times = [...stdout.matchAll(/^out_time_us=(\d+)$/gm)].map(([, micros]) => Number(micros));
  return { durationSeconds: (times.at(-1) ?? 0) / 1e6, complaints: stderr.trim() };
}
