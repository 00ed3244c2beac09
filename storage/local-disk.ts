/** Storage driver for the local disk: files below one directory, at signed URLs of the API. */
import { createReadStream } from 'node:fs';
import { access, constants, link, mkdir, open, rename, rm, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { assert } from '../domain/errors.ts';
import { createSignedUrls, type SignedUrls, type SignedUrlsOptions } from './signed-urls.ts';
import { openSpool } from './spool.ts';
import { contentTypeOf, isStorageKey, type Storage, type StorageObjects } from './storage.ts';

interface LocalDiskOptions extends SignedUrlsOptions {
  directory: string;
}

/** Storage on the local disk, with functions that verify its signed URLs. */
export type LocalDisk = Storage & SignedUrls;

/** Opens the storage below a directory; creates the directory if it does not exist. */
export async function openLocalDisk(options: LocalDiskOptions): Promise<LocalDisk> {
  const spoolPath = await openSpool(options.directory);
  return { spoolPath, ...openObjects(options.directory), ...createSignedUrls(options) };
}

function openObjects(directory: string): StorageObjects {
  function buildPath(key: string): string {
    assert(isStorageKey(key), 'the storage key is malformed');
    return join(directory, 'objects', key);
  }

  async function size(key: string): Promise<number | null> {
    try {
      return (await stat(buildPath(key))).size;
    } catch (error) {
      if (hasErrorCode(error, 'ENOENT')) return null;
      throw error;
    }
  }

  /** Flushes a spooled file to the disk, and returns the path to which it may be moved. */
  async function preparePut(key: string, spoolPath: string): Promise<string> {
    const path = buildPath(key);
    await mkdir(dirname(path), { recursive: true });
    // The caller may be charged right after the file is stored.
    const file = await open(spoolPath, 'r+');
    try {
      await file.sync();
    } finally {
      await file.close();
    }
    return path;
  }

  return {
    check: () => access(directory, constants.R_OK | constants.W_OK),
    size,
    async put(key, spoolPath) {
      const path = await preparePut(key, spoolPath);
      // `link` is atomic and never replaces a file, so only one of two simultaneous writers
      // succeeds, with a complete file.
      const outcome = await link(spoolPath, path).then(
        () => 'stored' as const,
        (error: unknown) => {
          if (hasErrorCode(error, 'EEXIST')) return 'exists' as const;
          throw error;
        },
      );
      await unlink(spoolPath);
      return outcome;
    },
    async replace(key, spoolPath) {
      await rename(spoolPath, await preparePut(key, spoolPath));
    },
    async open(key, range) {
      const sizeBytes = await size(key);
      if (sizeBytes === null) return null;
      const contentType = contentTypeOf(key);
      const bounds = range ? { start: range.first, end: range.last } : {};
      return { stream: createReadStream(buildPath(key), bounds), sizeBytes, contentType };
    },
    remove: (key) => rm(buildPath(key), { force: true }),
  };
}

function hasErrorCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
