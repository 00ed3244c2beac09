/** The spool: files on their way into the storage. What a crash leaves there is swept at the next start. */
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** Nothing takes longer than this to be spooled and stored; other processes share the directory. */
const leftoverAgeMs = 3_600_000;

/**
 * Opens (and makes) the spool below a directory, without what is older than an hour in it.
 * @returns a function that names a new file.
 */
export async function openSpool(directory: string): Promise<() => Promise<string>> {
  const spool = join(directory, 'spool');
  await mkdir(spool, { recursive: true });
  await Promise.all((await readdir(spool)).map((name) => sweep(join(spool, name))));
  return () => Promise.resolve(join(spool, randomUUID()));
}

/**
 * Writes a new file. A file is opened in another thread: one whose source fails at once may be made after
 * the failure is known. So this ends only when the file is closed, and who removes it then has removed it.
 */
export async function writeSpoolFile(
  path: string,
  source: Readable | (() => AsyncIterable<Buffer>),
): Promise<void> {
  const file = createWriteStream(path, { flags: 'wx' });
  const closed = new Promise<void>((resolve) => file.once('close', () => resolve()));
  try {
    await pipeline(source, file);
  } finally {
    await closed;
  }
}

/**
 * Writes a new file, and measures it on its way.
 * @returns its size and the hash of its bytes, in hex.
 */
export async function spoolFile(
  stream: Readable,
  path: string,
): Promise<{ sizeBytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  async function* watched(): AsyncGenerator<Buffer> {
    const chunks: AsyncIterable<Buffer> = stream;
    for await (const chunk of chunks) {
      hash.update(chunk);
      sizeBytes += chunk.length;
      yield chunk;
    }
  }
  await writeSpoolFile(path, watched);
  return { sizeBytes, sha256: hash.digest('hex') };
}

async function sweep(path: string): Promise<void> {
  try {
    if ((await stat(path)).mtimeMs < Date.now() - leftoverAgeMs) await rm(path, { force: true });
  } catch {
    // Another process that starts now was quicker, or the file has moved on.
  }
}
