/**
 * The spool: files on their way into the storage. Files that a crash has left are removed at the
 * next start.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/**
 * Age at which a file is removed: no file takes longer to be spooled and stored, and other
 * processes share the directory.
 */
const leftoverAgeMs = 3_600_000;

/**
 * Opens the spool below a directory, and removes files that are older than an hour.
 * @returns a function that names a new file
 */
export async function openSpool(directory: string): Promise<() => Promise<string>> {
  const spool = join(directory, 'spool');
  await mkdir(spool, { recursive: true });
  await Promise.all((await readdir(spool)).map((name) => sweep(join(spool, name))));
  return () => Promise.resolve(join(spool, randomUUID()));
}

/** Number of bytes. */
export interface Digest {
  sizeBytes: number;
  /** In hex. */
  sha256: string;
}

/** Makes a digest of bytes as they pass, so that a written file is not read again. */
function createDigest() {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  return {
    async *pass(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of chunks) {
        hash.update(chunk);
        sizeBytes += chunk.length;
        yield chunk;
      }
    },
    end: (): Digest => ({ sizeBytes, sha256: hash.digest('hex') }),
  };
}

/** Reads bytes to their end. */
export async function digestOf(bytes: Readable): Promise<Digest> {
  const digest = createDigest();
  for await (const _ of digest.pass(bytes));
  return digest.end();
}

/**
 * Writes a new file. It ends only when the file is closed, because another thread opens the file,
 * and a file whose source fails at once may be created after the failure is known; the caller can
 * then remove it.
 */
export async function writeSpoolFile(
  path: string,
  source: Readable | (() => AsyncIterable<Buffer>),
): Promise<Digest> {
  const file = createWriteStream(path, { flags: 'wx' });
  const closed = new Promise<void>((resolve) => file.once('close', () => resolve()));
  const digest = createDigest();
  try {
    await pipeline(source, (chunks: AsyncIterable<Buffer>) => digest.pass(chunks), file);
    return digest.end();
  } finally {
    await closed;
  }
}

async function sweep(path: string): Promise<void> {
  try {
    if ((await stat(path)).mtimeMs < Date.now() - leftoverAgeMs) await rm(path, { force: true });
  } catch {
    // Another process has removed the file, or it has been moved.
  }
}
