/** Sliding window over a byte source, for parsers that read small parts of a large file. */
import type { ByteSource } from './byte-source.ts';

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
