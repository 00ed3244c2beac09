/** RIFF files (WebP, WAV): chunks with an id and a size. */
import { metadataBytesMax, type ByteWindow } from '../byte-source.ts';
import { walkRiff, type RiffChunk } from '../media-chunks.ts';
import type { Edit, FileMetadata } from './content-credentials.ts';

interface Riff {
  chunks: RiffChunk[];
  /** End of the last complete chunk, including its padding. */
  end: number;
  /** False if the size of a chunk is unknown, so that nothing may follow that chunk. */
  isClosed: boolean;
  /** Field with the size of the file; null if the size is unknown, as in a piped recording. */
  size: { offset: number; bytes: 4 | 8; value: number } | null;
  /** Reads the content of a chunk. */
  read: (chunk: RiffChunk) => Promise<Buffer>;
}

const unknownSize = 0xffff_ffff;
const chunksMax = 100_000;

/** Reads the list of chunks; null if the file is not a RIFF file. */
export async function readRiff(file: ByteWindow): Promise<Riff | null> {
  const head = await file.read(0, 12);
  const form = head.toString('latin1', 0, 4);
  if (head.length < 12 || (form !== 'RIFF' && form !== 'RF64')) return null;
  const declared = head.readUInt32LE(4);
  let size: Riff['size'] =
    declared === 0 || declared === unknownSize ? null : { offset: 4, bytes: 4, value: declared };
  const chunks: RiffChunk[] = [];
  for await (const chunk of walkRiff(file, { max: chunksMax })) {
    const { id, data, dataEnd } = chunk;
    chunks.push(chunk);
    if (id === 'ds64') {
      const sizes = await file.read(data, 8);
      if (sizes.length < 8) return null;
      size = { offset: data, bytes: 8, value: Number(sizes.readBigUInt64LE(0)) };
    }
    if (id === 'data' && dataEnd === data) break;
  }
  const last = chunks.at(-1);
  const end = last?.end ?? head.length;
  const isEmpty = last?.id === 'data' && last.dataEnd === last.data;
  return {
    chunks,
    end: Math.min(end, file.sizeBytes),
    isClosed: end <= file.sizeBytes && !isEmpty && last?.isOpenEnded !== true,
    size,
    read: ({ data, dataEnd }) => file.read(data, Math.min(dataEnd - data, metadataBytesMax)),
  };
}

/** Builds a chunk with its padding. */
export function riffChunk(id: string, data: Buffer): Buffer {
  const chunk = Buffer.alloc(8 + data.length + (data.length % 2));
  chunk.write(id, 'latin1');
  chunk.writeUInt32LE(data.length, 4);
  data.copy(chunk, 8);
  return chunk;
}

/** Adds the edit of the size field to edits that change the size of the file. */
export function resizeRiff({ size }: Riff, edits: Edit[]): Edit[] {
  if (!size) return edits;
  const growth = edits.reduce(
    (sum, { start, end, bytes }) => sum + bytes.length - (end - start),
    0,
  );
  const bytes = Buffer.alloc(size.bytes);
  bytes.writeUIntLE(size.value + growth, 0, Math.min(6, size.bytes));
  return [{ start: size.offset, end: size.offset + size.bytes, bytes }, ...edits];
}

/** WAV: XMP in the chunk `_PMX`. ID3 tags in a chunk may have a mark too. */
export async function readWav(file: ByteWindow): Promise<FileMetadata | null> {
  const riff = await readRiff(file);
  const data = riff?.chunks.find(({ id }) => id === 'data');
  if (!riff || !data) return null;
  const existing = riff.chunks.find(({ id }) => id === '_PMX');
  const tag = riff.chunks.find(({ id }) => id.toLowerCase() === 'id3 ');
  // Naive readers expect the sound right after the format, so metadata comes last where it can.
  const free = riff.isClosed ? riff.end : data.start;
  const { start, end } = existing ?? { start: free, end: free };
  return {
    isSigned: riff.chunks.some(({ id }) => id === 'C2PA'),
    packet: existing ? (await riff.read(existing)).toString() : null,
    otherText: tag ? (await riff.read(tag)).toString('latin1').replaceAll('\0', '') : '',
    write: ({ xmp }) =>
      resizeRiff(riff, [{ start, end, bytes: riffChunk('_PMX', Buffer.from(xmp)) }]),
  };
}
