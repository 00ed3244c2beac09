/** Reads small parts of a file, in the order of the file, with few system calls. */
import { open } from 'node:fs/promises';

/** Maximum size of metadata that is read, in bytes. */
export const metadataBytesMax = 16 * 1024 * 1024;

const windowBytes = 256 * 1024;

/** Open file with a window of its bytes in memory. */
export interface FileWindow {
  sizeBytes: number;
  /** Returns the bytes from `start` (included) to `end` (excluded); fewer at the end of the file. */
  read: (start: number, end: number) => Promise<Buffer>;
}

/** Opens a file for the duration of a function. */
export async function withFileWindow<Result>(
  path: string,
  use: (file: FileWindow) => Promise<Result>,
): Promise<Result> {
  const file = await open(path);
  try {
    const { size: sizeBytes } = await file.stat();
    let windowStart = 0;
    let window: Buffer = Buffer.alloc(0);
    return await use({
      sizeBytes,
      async read(start, end) {
        const last = Math.min(end, sizeBytes);
        if (start >= last) return Buffer.alloc(0);
        if (start < windowStart || last > windowStart + window.length) {
          const buffer = Buffer.allocUnsafe(
            Math.min(Math.max(last - start, windowBytes), sizeBytes - start),
          );
          const { bytesRead } = await file.read(buffer, 0, buffer.length, start);
          windowStart = start;
          window = buffer.subarray(0, bytesRead);
        }
        return window.subarray(start - windowStart, last - windowStart);
      },
    });
  } finally {
    await file.close();
  }
}
