/**
 * Reads the size, orientation and number of frames of a picture from its headers. Decodes nothing
 * and follows no pointer twice: every loop has a maximum number of entries, so that no file takes
 * more than a few milliseconds.
 */
import type { ByteWindow } from './byte-source.ts';
import { walkJpeg, walkPng, walkRiff } from './media-chunks.ts';

/** Properties of a picture. Width and height are those of the upright picture. */
export interface PictureHeader {
  width: number;
  height: number;
  /** Whether the file has more than one frame. */
  isAnimated: boolean;
  /** Whether pixels may be transparent: the file has an alpha channel or a transparent color. */
  hasAlpha: boolean;
  /** Whether the pixels are stored otherwise than they are seen, by the EXIF tag `Orientation`. */
  isTurned: boolean;
}

/** Formats that this module reads, by the extension of their stored files. */
export type PictureFormat = 'png' | 'jpg' | 'webp' | 'gif' | 'heic' | 'avif';

/** Header before the orientation is applied. */
interface StoredHeader {
  width: number;
  height: number;
  /** Value of the EXIF tag `Orientation`, 1 to 8. */
  orientation?: number;
  isAnimated?: boolean;
  hasAlpha?: boolean;
}

/** Maximum number of segments or chunks before the end of the headers; photos have up to 400. */
const chunksMax = 2000;
/** Maximum number of blocks of a GIF's first frame: 25 MB in blocks of 255 bytes. */
const gifBlocksMax = 110_000;
/** Maximum number of bytes and of entries of an EXIF directory that are read. */
const exifBytesMax = 64 * 1024;
const exifEntriesMax = 512;

const readers: Record<PictureFormat, (file: ByteWindow) => Promise<StoredHeader | null>> = {
  png: readPng,
  jpg: readJpeg,
  webp: readWebp,
  gif: readGif,
  heic: readHeif,
  avif: readHeif,
};

/** Reads the header of a picture; null if it is damaged, or has too many entries. */
export async function readPictureHeader(
  format: PictureFormat,
  file: ByteWindow,
): Promise<PictureHeader | null> {
  const header = await readers[format](file);
  if (!header || !(header.width > 0 && header.height > 0)) return null;
  const { width, height, orientation = 1, isAnimated = false, hasAlpha = false } = header;
  const others = { isAnimated, hasAlpha, isTurned: orientation > 1 };
  // From 5 on, the stored picture is turned by a quarter.
  return orientation >= 5
    ? { width: height, height: width, ...others }
    : { width, height, ...others };
}

/** Reads the tag `Orientation` of the first EXIF directory; 1 if there is none. */
function readOrientation(tiff: Buffer): number {
  const order = tiff.toString('latin1', 0, 2);
  if (tiff.length < 10 || (order !== 'II' && order !== 'MM')) return 1;
  const read = (at: number, bytes: 2 | 4): number =>
    order === 'II' ? tiff.readUIntLE(at, bytes) : tiff.readUIntBE(at, bytes);
  const directory = read(4, 4);
  if (directory + 2 > tiff.length) return 1;
  const entries = Math.min(read(directory, 2), exifEntriesMax);
  for (let entry = 0; entry < entries; entry += 1) {
    const at = directory + 2 + entry * 12;
    if (at + 12 > tiff.length) return 1;
    if (read(at, 2) !== 0x0112) continue;
    const value = read(at + 8, 2);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

async function readPng(file: ByteWindow): Promise<StoredHeader | null> {
  const start = await file.read(0, 33);
  if (start.length < 33 || start.toString('latin1', 12, 16) !== 'IHDR') return null;
  const header: StoredHeader = {
    width: start.readUInt32BE(16),
    height: start.readUInt32BE(20),
    // Color types 4 and 6 have an alpha channel.
    hasAlpha: (start.readUInt8(25) & 4) !== 0,
  };
  for await (const { id, data, dataEnd } of walkPng(file, chunksMax)) {
    if (id === 'IDAT') return header;
    if (id === 'IEND') return null;
    if (id === 'tRNS') header.hasAlpha = true;
    if (id === 'acTL') header.isAnimated = (await file.read(data, 4)).readUInt32BE(0) > 1;
    if (id === 'eXIf') {
      header.orientation = readOrientation(
        await file.read(data, Math.min(dataEnd - data, exifBytesMax)),
      );
    }
  }
  return null;
}

/** Markers that start a frame (SOF0 to SOF15), which contains the size. */
const isFrameMarker = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);

async function readJpeg(file: ByteWindow): Promise<StoredHeader | null> {
  let orientation: number | undefined;
  for await (const { marker, data, dataEnd } of walkJpeg(file, chunksMax)) {
    const start = await file.read(data, 6);
    if (isFrameMarker(marker)) {
      if (start.length < 5) return null;
      const [height, width] = [start.readUInt16BE(1), start.readUInt16BE(3)];
      return { width, height, orientation: orientation ?? 1 };
    }
    if (marker === 0xe1 && start.toString('latin1') === 'Exif\0\0') {
      const exif = await file.read(data + 6, Math.max(0, dataEnd - data - 6));
      orientation ??= readOrientation(exif);
    }
  }
  return null;
}

/** Reads the size in a VP8, VP8L or VP8X chunk, which starts with its name and length. */
function readWebpSize(chunk: Buffer): StoredHeader | null {
  const name = chunk.toString('latin1', 0, 4);
  if (chunk.length < 18) return null;
  if (name === 'VP8X') {
    const hasAlpha = (chunk.readUInt8(8) & 0x10) !== 0;
    return { width: chunk.readUIntLE(12, 3) + 1, height: chunk.readUIntLE(15, 3) + 1, hasAlpha };
  }
  if (name === 'VP8 ' && chunk.readUIntBE(11, 3) === 0x9d012a) {
    return { width: chunk.readUInt16LE(14) & 0x3fff, height: chunk.readUInt16LE(16) & 0x3fff };
  }
  if (name !== 'VP8L' || chunk.readUInt8(8) !== 0x2f) return null;
  const bits = chunk.readUInt32LE(9);
  const hasAlpha = ((bits >>> 28) & 1) !== 0;
  return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1, hasAlpha };
}

async function readWebp(file: ByteWindow): Promise<StoredHeader | null> {
  const first = await file.read(12, 18);
  const header = readWebpSize(first);
  if (!header || first.toString('latin1', 0, 4) !== 'VP8X') return header;
  const flags = first.readUInt8(8);
  const [hasExif, hasAnimation] = [(flags & 0x08) !== 0, (flags & 0x02) !== 0];
  if (!hasExif && !hasAnimation) return header;
  let frames = 0;
  // The orientation follows the pixels, so all chunks are visited.
  for await (const { id, data, dataEnd } of walkRiff(file, { max: chunksMax })) {
    if (id === 'ANMF') frames += 1;
    if (frames > 1) return { ...header, isAnimated: true };
    if (id === 'EXIF') {
      const exif = await file.read(data, Math.min(dataEnd - data, exifBytesMax));
      // Some writers put the marker of JPEG before the directory.
      const tiff = exif.toString('latin1', 0, 6) === 'Exif\0\0' ? exif.subarray(6) : exif;
      header.orientation = readOrientation(tiff);
    }
  }
  return header;
}

/** Returns the position after a chain of GIF sub-blocks; null if it does not end. */
async function skipGifBlocks(file: ByteWindow, start: number): Promise<number | null> {
  let position = start;
  for (let blocks = 0; blocks < gifBlocksMax; blocks += 1) {
    const length = (file.peek(position, 1) ?? (await file.read(position, 1)))[0];
    if (length === undefined) return null;
    position += 1 + length;
    if (length === 0) return position;
  }
  return null;
}

/** Returns the number of bytes of a color table, from the flags that announce it. */
const gifTableBytes = (flags: number): number => (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0);

async function readGif(file: ByteWindow): Promise<StoredHeader | null> {
  const screen = await file.read(0, 13);
  if (screen.length < 13) return null;
  const header: StoredHeader = { width: screen.readUInt16LE(6), height: screen.readUInt16LE(8) };
  let position: number | null = 13 + gifTableBytes(screen.readUInt8(10));
  let frames = 0;
  for (let blocks = 0; blocks < chunksMax; blocks += 1) {
    const head = await file.read(position, 10);
    // A cut-off file and one without a trailer end here.
    if (head.length < 3 || head[0] === 0x3b) break;
    if (head[0] === 0x2c && head.length === 10) {
      frames += 1;
      if (frames > 1) return { ...header, isAnimated: true };
      header.width = Math.max(header.width, head.readUInt16LE(1) + head.readUInt16LE(5));
      header.height = Math.max(header.height, head.readUInt16LE(3) + head.readUInt16LE(7));
      position = await skipGifBlocks(file, position + 11 + gifTableBytes(head.readUInt8(9)));
    } else if (head[0] === 0x21) {
      // A graphic control extension names the transparent color.
      if (head[1] === 0xf9 && ((head[3] ?? 0) & 1) !== 0) header.hasAlpha = true;
      position = await skipGifBlocks(file, position + 2);
    } else return null;
    if (position === null) break;
  }
  return frames === 0 ? null : header;
}

/** Brands of sequences of pictures (ISO/IEC 23008-12, AV1 image format). */
const sequenceBrands = new Set(['avis', 'msf1', 'hevc', 'hevx', 'heis', 'hevs']);
/** Maximum size of the box that describes a HEIC or AVIF, in bytes; photos have less than 20 kB. */
const heifMetaBytesMax = 1024 * 1024;
/** Maximum number of boxes that are visited. */
const heifBoxesMax = 2000;

/**
 * Reads the largest size that a HEIC or AVIF states: the picture may be a grid of tiles, and the
 * conversion measures what it delivers. The properties are in the boxes `meta`, `iprp`, `ipco`.
 */
async function readHeif(file: ByteWindow): Promise<StoredHeader | null> {
  const brand = (await file.read(8, 4)).toString('latin1');
  let position = 0;
  for (let boxes = 0; boxes < heifBoxesMax; boxes += 1) {
    const head = await file.read(position, 8);
    if (head.length < 8) return null;
    const bytes = head.readUInt32BE(0);
    if (head.toString('latin1', 4, 8) === 'meta') {
      if (bytes < 12 || bytes > heifMetaBytesMax) return null;
      const meta = await file.read(position + 12, bytes - 12);
      const size = findLargestSize(meta);
      return size && { ...size, isAnimated: sequenceBrands.has(brand) };
    }
    if (bytes < 8) return null;
    position += bytes;
  }
  return null;
}

/** Returns the largest size in the properties of a `meta` box. */
function findLargestSize(meta: Buffer): { width: number; height: number } | null {
  const sizes = findBoxes(meta, 'iprp')
    .flatMap((properties) => findBoxes(properties, 'ipco'))
    .flatMap((container) => findBoxes(container, 'ispe'))
    .filter((size) => size.length >= 12)
    .map((size) => ({ width: size.readUInt32BE(4), height: size.readUInt32BE(8) }));
  const [largest] = sizes.toSorted((a, b) => b.width * b.height - a.width * a.height);
  return largest ?? null;
}

/** Returns the contents of the boxes of this type. */
function findBoxes(parent: Buffer, type: string): Buffer[] {
  const found: Buffer[] = [];
  let position = 0;
  for (let boxes = 0; boxes < heifBoxesMax && position + 8 <= parent.length; boxes += 1) {
    const bytes = parent.readUInt32BE(position);
    if (bytes < 8) break;
    if (parent.toString('latin1', position + 4, position + 8) === type) {
      found.push(parent.subarray(position + 8, position + bytes));
    }
    position += bytes;
  }
  return found;
}
