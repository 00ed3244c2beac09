/** Metadata of PNG, JPEG and WebP files: where marks are found, and where one is written. */
import { crc32, inflateSync } from 'node:zlib';
import { metadataBytesMax, type ByteWindow } from '../byte-source.ts';
import { walkJpeg, walkPng } from '../media-chunks.ts';
import { readRiff, resizeRiff, riffChunk } from './riff.ts';
import type { Edit, FileMetadata } from './content-credentials.ts';

/** Maximum number of chunks that are visited. */
const chunksMax = 100_000;
const pngKeyword = 'XML:com.adobe.xmp\0';

/** PNG specification, 5 (chunks) and 11.3.3.4 (`iTXt`); C2PA embeds a manifest as `caBX`. */
export async function readPng(file: ByteWindow): Promise<FileMetadata | null> {
  let isSigned = false;
  let packet: { text: string; start: number; end: number } | null = null;
  for await (const { id, start, data, dataEnd, end } of walkPng(file, chunksMax)) {
    if (id === 'caBX') isSigned = true;
    if (id === 'iTXt' && end - start <= metadataBytesMax && !packet) {
      const text = readPngPacket(await file.read(data, dataEnd - data));
      if (text !== null) packet = { text, start, end };
    }
    if (id === 'IEND') break;
  }
  // The header has a fixed size; metadata before the pixels is seen by readers that stop there.
  const headerEnd = 8 + 25;
  const { start, end } = packet ?? { start: headerEnd, end: headerEnd };
  return {
    isSigned,
    packet: packet?.text ?? null,
    write: ({ xmp }) => [{ start, end, bytes: pngChunk('iTXt', `${pngKeyword}\0\0\0\0${xmp}`) }],
  };
}

/** Returns the XMP packet in the data of an `iTXt` chunk; null if it is another text. */
function readPngPacket(data: Buffer): string | null {
  if (!data.subarray(0, pngKeyword.length).equals(Buffer.from(pngKeyword))) return null;
  const [isCompressed] = data.subarray(pngKeyword.length);
  const languageEnd = data.indexOf(0, pngKeyword.length + 2);
  const keywordEnd = data.indexOf(0, languageEnd + 1);
  if (languageEnd < 0 || keywordEnd < 0) return null;
  const text = data.subarray(keywordEnd + 1);
  if (isCompressed === 0) return text.toString();
  try {
    return inflateSync(text, { maxOutputLength: metadataBytesMax }).toString();
  } catch {
    return null;
  }
}

function pngChunk(type: string, text: string): Buffer {
  const body = Buffer.from(type + text);
  const chunk = Buffer.alloc(body.length + 8);
  chunk.writeUInt32BE(body.length - 4);
  body.copy(chunk, 4);
  chunk.writeUInt32BE(crc32(body), body.length + 4);
  return chunk;
}

const jpegXmp = Buffer.from('http://ns.adobe.com/xap/1.0/\0');
const jpegExtendedXmp = Buffer.from('http://ns.adobe.com/xmp/extension/\0');
const jpegSegmentMax = 65_533;

/** JPEG marker segments up to the pixels; C2PA embeds a manifest in APP11 segments (JUMBF). */
export async function readJpeg(file: ByteWindow): Promise<FileMetadata | null> {
  let isSigned = false;
  let packet: { text: string; start: number; end: number } | null = null;
  let extension = '';
  let firstFree = 2;
  for await (const { marker, start, data: dataStart, end } of walkJpeg(file, chunksMax)) {
    const data = await file.read(dataStart, end - dataStart);
    if (marker === 0xeb && isJumbf(data)) isSigned = true;
    if (marker === 0xe1 && startsWith(data, jpegXmp) && !packet) {
      packet = { text: data.toString('utf8', jpegXmp.length), start, end };
    }
    if (marker === 0xe1 && startsWith(data, jpegExtendedXmp)) extension += data.toString('latin1');
    // JFIF and Exif must come first.
    if (start === firstFree && (marker === 0xe0 || startsWith(data, Buffer.from('Exif\0')))) {
      firstFree = end;
    }
  }
  const { start, end } = packet ?? { start: firstFree, end: firstFree };
  return {
    isSigned,
    packet: packet?.text ?? null,
    otherText: extension,
    write({ xmp }) {
      const data = Buffer.concat([jpegXmp, Buffer.from(xmp)]);
      if (data.length > jpegSegmentMax) return null;
      const head = Buffer.from([0xff, 0xe1, 0, 0]);
      head.writeUInt16BE(data.length + 2, 2);
      return [{ start, end, bytes: Buffer.concat([head, data]) }];
    },
  };
}

const startsWith = (data: Buffer, start: Buffer): boolean =>
  data.subarray(0, start.length).equals(start);

/** Returns whether an APP11 segment begins a JUMBF box with a C2PA manifest store. */
function isJumbf(data: Buffer): boolean {
  const head = data.toString('latin1', 0, 128);
  return head.startsWith('JP') && head.includes('jumb') && head.includes('c2pa');
}

/** WebP container: RIFF chunks; the extended header `VP8X` declares the metadata. */
export async function readWebp(file: ByteWindow): Promise<FileMetadata | null> {
  const riff = await readRiff(file);
  const [first] = riff?.chunks ?? [];
  if (!riff || !first) return null;
  const header = await readWebpHeader(file, first);
  const existing = riff.chunks.find(({ id }) => id === 'XMP ');
  const { start, end } = existing ?? { start: riff.end, end: riff.end };
  return {
    isSigned: riff.chunks.some(({ id }) => id === 'C2PA'),
    packet: existing ? (await riff.read(existing)).toString() : null,
    write({ xmp }) {
      if (!header) return null;
      const chunk = { start, end, bytes: riffChunk('XMP ', Buffer.from(xmp)) };
      return resizeRiff(riff, [header, chunk]);
    },
  };
}

const xmpFlag = 0x04;
const alphaFlag = 0x10;

/** Returns the edit that declares XMP in the header; null if the header is not readable. */
async function readWebpHeader(
  file: ByteWindow,
  { id, start }: { id: string; start: number },
): Promise<Edit | null> {
  const data = await file.read(start + 8, 10);
  if (data.length < 10) return null;
  if (id === 'VP8X') {
    const bytes = Buffer.from([(data[0] ?? 0) | xmpFlag]);
    return { start: start + 8, end: start + 9, bytes };
  }
  const fields = Buffer.alloc(10);
  if (id === 'VP8 ') {
    fields[0] = xmpFlag;
    fields.writeUIntLE((data.readUInt16LE(6) & 0x3fff) - 1, 4, 3);
    fields.writeUIntLE((data.readUInt16LE(8) & 0x3fff) - 1, 7, 3);
  } else if (id === 'VP8L') {
    const bits = data.readUInt32LE(1);
    fields[0] = xmpFlag | ((bits >>> 28) & 1 ? alphaFlag : 0);
    fields.writeUIntLE(bits & 0x3fff, 4, 3);
    fields.writeUIntLE((bits >>> 14) & 0x3fff, 7, 3);
  } else return null;
  return { start, end: start, bytes: riffChunk('VP8X', fields) };
}
