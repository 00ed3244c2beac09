/**
 * The embedded storage driver: files below one directory, read through URLs signed with HMAC-SHA256
 * over method, key and expiry.
 */
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { link, mkdir, open, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { assert } from '../../domain/assert.ts';
import { contentTypeOf, isStorageKey, type Storage } from './storage.ts';

interface LocalDiskOptions {
  directory: string;
  secret: string;
  /** Where the API serves `/files/…`. */
  publicBaseUrl: string;
}

/** Storage on the local disk, and the check of its URLs. */
export interface LocalDisk extends Storage {
  /** Whether this signature admits reading the key now. */
  admits: (key: string, query: { expires: string; signature: string }) => boolean;
}

/** Opens (and makes) the directory. */
export async function openLocalDisk(options: LocalDiskOptions): Promise<LocalDisk> {
  const spoolDirectory = join(options.directory, 'spool');
  await mkdir(spoolDirectory, { recursive: true });

  const sign = (key: string, expires: string): string =>
    createHmac('sha256', options.secret).update(`GET\n${key}\n${expires}`).digest('base64url');

  function pathOf(key: string): string {
    assert(isStorageKey(key), 'a storage key has the form that we make');
    return join(options.directory, 'objects', key);
  }

  async function size(key: string): Promise<number | null> {
    try {
      return (await stat(pathOf(key))).size;
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
  }

  return {
    spoolPath: () => Promise.resolve(join(spoolDirectory, randomUUID())),
    async put(key, spoolPath) {
      const path = pathOf(key);
      await mkdir(dirname(path), { recursive: true });
      // The customer pays right after this: the bytes must be on the disk, not on their way to it.
      const file = await open(spoolPath, 'r+');
      try {
        await file.sync();
      } finally {
        await file.close();
      }
      try {
        await link(spoolPath, path);
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
      }
      await unlink(spoolPath);
    },
    size,
    async open(key, range) {
      const sizeBytes = await size(key);
      if (sizeBytes === null) return null;
      const bounds = range ? { start: range.first, end: range.last } : {};
      return {
        stream: createReadStream(pathOf(key), bounds),
        sizeBytes,
        contentType: contentTypeOf(key),
      };
    },
    urlOf(key, ttlMs) {
      const expires = String(Math.ceil((Date.now() + ttlMs) / 1000));
      return `${options.publicBaseUrl}/files/${key}?expires=${expires}&signature=${sign(key, expires)}`;
    },
    admits(key, query) {
      if (!isStorageKey(key) || !/^\d{1,12}$/.test(query.expires)) return false;
      const given = Buffer.from(query.signature);
      const right = Buffer.from(sign(key, query.expires));
      if (given.length !== right.length || !timingSafeEqual(given, right)) return false;
      return Number(query.expires) * 1000 > Date.now();
    },
  };
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
