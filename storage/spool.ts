/**
 * Spool: a directory for files that are not stored yet. Files that remain after a crash are removed
 * at the next start.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/**
 * Age in milliseconds at which a leftover file is removed. No file is in use for this long, not
 * even by another process that shares the directory.
 */
const leftoverAgeMs = 3_600_000;

/**
 * Opens the spool below a directory: creates it if it does not exist, and removes files older than
 * an hour.
 * @returns a function that returns the path for a new file
 */
export async function openSpool(directory: string): Promise<() => Promise<string>> {
  const spool = join(directory, 'spool');
  await mkdir(spool, { recursive: true });
  await Promise.all((await readdir(spool)).map((name) => removeLeftover(join(spool, name))));
  return () => Promise.resolve(join(spool, randomUUID()));
}

/** Runs a function with the path for a new file, which is removed afterwards unless it was moved. */
export async function withSpoolFile<Result>(
  { spoolPath }: { spoolPath: () => Promise<string> },
  run: (path: string) => Promise<Result>,
): Promise<Result> {
  const path = await spoolPath();
  try {
    return await run(path);
  } finally {
    await rm(path, { force: true });
  }
}

/** Size and hash of a file or stream. */
export interface Digest {
  sizeBytes: number;
  /** SHA-256 hash in hexadecimal. */
  sha256: string;
}

/** Computes the digest of bytes that pass through, so that they need not be read again. */
function createDigest() {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  return {
    async *passThrough(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of chunks) {
        hash.update(chunk);
        sizeBytes += chunk.length;
        yield chunk;
      }
    },
    finish: (): Digest => ({ sizeBytes, sha256: hash.digest('hex') }),
  };
}

/** Reads a stream to its end and returns its digest. */
export async function digestStream(bytes: Readable): Promise<Digest> {
  const digest = createDigest();
  for await (const _ of digest.passThrough(bytes));
  return digest.finish();
}

/** Writes a new file like `fillSpoolFile`, and returns its digest. */
export async function writeSpoolFile(
  path: string,
  source: Readable | (() => AsyncIterable<Buffer>),
): Promise<Digest> {
  const digest = createDigest();
  await fillSpoolFile(path, source, (chunks) => digest.passThrough(chunks));
  return digest.finish();
}

/**
 * Writes a new file. Waits until the file is closed, even after an error: Node opens the file in
 * another thread and may create it after the source has failed. Once this function has returned,
 * the caller can remove the file.
 */
export async function fillSpoolFile(
  path: string,
  source: Readable | (() => AsyncIterable<Buffer>),
  passThrough?: (chunks: AsyncIterable<Buffer>) => AsyncIterable<Buffer>,
): Promise<void> {
  const file = createWriteStream(path, { flags: 'wx' });
  const closed = new Promise<void>((resolve) => file.once('close', () => resolve()));
  try {
    if (passThrough) await pipeline(source, passThrough, file);
    else await pipeline(source, file);
  } finally {
    await closed;
  }
}

async function removeLeftover(path: string): Promise<void> {
  try {
    if ((await stat(path)).mtimeMs < Date.now() - leftoverAgeMs) await rm(path, { force: true });
  } catch {
    // Another process has removed or stored the file.
  }
}
