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

/** Window over the bytes of a file. Positions are those of the file. */
export interface ByteWindow {
  sizeBytes: number;
  /**
   * Returns `length` bytes from `position`; fewer at the end of the file. The bytes are valid until
   * the next call.
   */
  read: (position: number, length: number) => Promise<Buffer>;
  /** Returns the same bytes without waiting; null if they are not in the window. */
  peek: (position: number, length: number) => Buffer | null;
}

/**
 * Opens a window that loads `stepBytes` at a time. A parser of a whole file uses long steps; one that
 * jumps between headers uses short ones.
 */
export function openWindow(
  source: Pick<ByteSource, 'read'>,
  { sizeBytes, stepBytes }: { sizeBytes: number; stepBytes: number },
): ByteWindow {
  let start = 0;
  let loaded: Buffer = Buffer.alloc(0);

  function peek(position: number, length: number): Buffer | null {
    const end = Math.min(position + length, sizeBytes);
    if (position >= end) return Buffer.alloc(0);
    if (position < start || end > start + loaded.length) return null;
    return loaded.subarray(position - start, end - start);
  }

  return {
    sizeBytes,
    peek,
    async read(position, length) {
      const present = peek(position, length);
      if (present) return present;
      const end = Math.min(position + Math.max(length, stepBytes), sizeBytes);
      const bytes = await source.read(position, end);
      start = position;
      loaded = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      return loaded.subarray(0, length);
    },
  };
}

/** Maximum size of metadata that is read, in bytes. */
export const metadataBytesMax = 16 * 1024 * 1024;

const windowBytes = 256 * 1024;

/** Opens a file for the duration of a function. */
export async function withFileWindow<Result>(
  path: string,
  use: (file: ByteWindow) => Promise<Result>,
): Promise<Result> {
  const source = createFileSource(path);
  try {
    return await use(
      openWindow(source, { sizeBytes: await source.size(), stepBytes: windowBytes }),
    );
  } finally {
    await source.close();
  }
}
