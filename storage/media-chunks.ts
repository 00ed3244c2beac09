/**
 * Walks through the parts of PNG, JPEG and RIFF files (WebP, WAV) and the tags before MP3, without their contents. Readers of
 * sizes, lengths and marks use the same walk, so that all of them see the same parts of a damaged file.
 */
import type { ByteWindow } from './byte-source.ts';

/** Part of a file, by positions in the file. */
export interface Chunk {
  id: string;
  start: number;
  /** Position of the content. */
  data: number;
  dataEnd: number;
  /** Position of the next chunk, after a checksum or padding. May be behind the end of the file. */
  end: number;
}

/** Yields at most `max` chunks of a PNG (PNG specification, 5); ends at one whose head is cut off. */
export async function* walkPng(file: ByteWindow, max: number): AsyncGenerator<Chunk> {
  let start = 8;
  for (let count = 0; count < max; count += 1) {
    const head = await file.read(start, 12);
    if (head.length < 12) return;
    const id = head.toString('latin1', 4, 8);
    const data = start + 8;
    const dataEnd = data + head.readUInt32BE(0);
    yield { id, start, data, dataEnd, end: dataEnd + 4 };
    start = dataEnd + 4;
  }
}

/** Segment of a JPEG, by its marker. */
export type Segment = Omit<Chunk, 'id'> & { marker: number };

/** Yields at most `max` segments of a JPEG up to its pixels; ends at bytes that are no segment. */
export async function* walkJpeg(file: ByteWindow, max: number): AsyncGenerator<Segment> {
  let start = 2;
  for (let count = 0; count < max; count += 1) {
    const head = await file.read(start, 4);
    if (head.length < 4 || head.readUInt8(0) !== 0xff) return;
    const marker = head.readUInt8(1);
    if (marker === 0xd9 || marker === 0xda) return;
    if (marker === 0xff) {
      start += 1;
    } else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {
      // These markers have no content.
      start += 2;
    } else {
      const end = start + 2 + Math.max(2, head.readUInt16BE(2));
      yield { marker, start, data: start + 4, dataEnd: end, end };
      start = end;
    }
  }
}

/** Chunk of a RIFF file. `isOpenEnded` is true if the file does not say how long it is. */
export type RiffChunk = Chunk & { isOpenEnded: boolean };

const unknownBytes = 0xffff_ffff;

/**
 * Yields at most `max` chunks of the RIFF file that starts at `start`. RF64 states the length of `data` in `ds64` (EBU Tech
 * 3306). A length of all ones is that of a recorder that could not return to its header.
 */
export async function* walkRiff(
  file: ByteWindow,
  { max, start: fileStart = 0 }: { max: number; start?: number },
): AsyncGenerator<RiffChunk> {
  let start = fileStart + 12;
  let longBytes = 0;
  for (let count = 0; count < max; count += 1) {
    const head = await file.read(start, 24);
    if (head.length < 8) return;
    const id = head.toString('latin1', 0, 4);
    const data = start + 8;
    if (id === 'ds64' && head.length >= 24) longBytes = Number(head.readBigUInt64LE(16));
    const declared = head.readUInt32LE(4);
    const isUnknown = id === 'data' && declared === unknownBytes;
    const bytes = isUnknown ? longBytes || file.sizeBytes - data : declared;
    const end = data + bytes + (bytes % 2);
    const isOpenEnded = isUnknown && longBytes === 0;
    yield { id, start, data, dataEnd: data + bytes, end, isOpenEnded };
    start = end;
  }
}

/** Number of bytes of the head of an ID3v2 tag, and of each of its frames. */
export const id3HeadBytes = 10;

/** Reads a number of ID3v2, of which each byte has seven bits. */
export const readSyncsafe = (bytes: Buffer, at: number): number =>
  bytes.subarray(at, at + 4).reduce((sum, byte) => sum * 128 + (byte & 127), 0);

/** Returns the number of bytes of an ID3v2 tag; 0 if the bytes are none. */
export function readTagBytes(head: Buffer): number {
  if (head.length < id3HeadBytes || head.toString('latin1', 0, 3) !== 'ID3') return 0;
  return id3HeadBytes + readSyncsafe(head, 6);
}
