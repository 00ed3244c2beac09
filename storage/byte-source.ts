/**
 * Byte sources that are read in ranges: local files and stored objects. The duration of a long file
 * can be read without copying the file.
 */
import { open } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { CustomSource } from 'mediabunny';
import type { Storage } from './storage.ts';

export interface ByteSource {
  /** Returns the size in bytes. */
  size: () => Promise<number>;
  /** Reads the bytes from `start` (included) to `end` (excluded). */
  read: (start: number, end: number) => Promise<Uint8Array>;
  close: () => Promise<void>;
}

/** Creates a source that reads a stored object. */
export function createObjectSource(
  storage: Pick<Storage, 'size' | 'open'>,
  key: string,
): ByteSource {
  return {
    size: async () => (await storage.size(key)) ?? 0,
    async read(start, end) {
      const object = await storage.open(key, { first: start, last: end - 1 });
      return object ? new Uint8Array(await buffer(object.stream)) : new Uint8Array(0);
    },
    close: () => Promise.resolve(),
  };
}

/** Creates a source that reads a local file. */
export function createFileSource(path: string): ByteSource {
  const openedFile = open(path);
  return {
    size: async () => (await (await openedFile).stat()).size,
    async read(start, end) {
      const file = await openedFile;
      const { buffer: bytes, bytesRead } = await file.read(Buffer.alloc(end - start), {
        position: start,
      });
      return bytes.subarray(0, bytesRead);
    },
    close: () => openedFile.then((file) => file.close()).catch(() => {}),
  };
}

/**
 * Converts a byte source to a mediabunny source. It reads long ranges, because with short ranges,
 * measuring ten minutes of MP3 takes a second.
 */
export function createMediaSource({ size, read, close }: ByteSource): CustomSource {
  return new CustomSource({
    getSize: size,
    read,
    dispose: close,
    prefetchProfile: 'network',
    handleUnhandledError: () => {},
  });
}
