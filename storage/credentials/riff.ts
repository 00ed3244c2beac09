/** RIFF files (WebP, WAV): chunks with an id and a size. */
import { metadataBytesMax, type FileWindow } from '../byte-source.ts';
import type { Edit, FileMetadata } from './content-credentials.ts';

interface Chunk {
  id: string;
  start: number;
  end: number;
  read: () => Promise<Buffer>;
}

interface Riff {
  chunks: Chunk[];
  /** End of the last complete chunk, including its padding. */
  end: number;
  /** False if the size of a chunk is unknown, so that nothing may follow that chunk. */
  isClosed: boolean;
  /** Field with the size of the file; null if the size is unknown, as in a piped recording. */
  size: { offset: number; bytes: 4 | 8; value: number } | null;
}

const unknownSize = 0xffff_ffff;
const chunksMax = 100_000;

/** Reads the list of chunks; null if the file is not a RIFF file. */
export async function readRiff(file: FileWindow): Promise<Riff | null> {
  const head = await file.read(0, 12);
  const form = head.toString('latin1', 0, 4);
  if (head.length < 12 || (form !== 'RIFF' && form !== 'RF64')) return null;
  const chunks: Chunk[] = [];
  const declared = head.readUInt32LE(4);
  let size: Riff['size'] =
    declared === 0 || declared === unknownSize ? null : { offset: 4, bytes: 4, value: declared };
  let dataBytes = unknownSize;
  let offset = 12;
  while (offset + 8 <= file.sizeBytes && chunks.length < chunksMax) {
    const chunkHead = await file.read(offset, offset + 8);
    const id = chunkHead.toString('latin1', 0, 4);
    const declaredBytes = chunkHead.readUInt32LE(4);
    if (id === 'ds64') {
      // RF64 keeps its sizes in 64 bits here (EBU Tech 3306).
      const sizes = await file.read(offset + 8, offset + 24);
      size = { offset: offset + 8, bytes: 8, value: Number(sizes.readBigUInt64LE(0)) };
      dataBytes = Number(sizes.readBigUInt64LE(8));
    }
    const bytes = id === 'data' && declaredBytes === unknownSize ? dataBytes : declaredBytes;
    const start = offset;
    const end = start + 8 + bytes;
    const read = (): Promise<Buffer> =>
      file.read(start + 8, Math.min(end, start + 8 + metadataBytesMax));
    chunks.push({ id, start, end: end + (bytes % 2), read });
    offset = end + (bytes % 2);
    if (id === 'data' && declaredBytes === 0) break;
  }
  const last = chunks.at(-1);
  const isClosed =
    offset <= file.sizeBytes && !(last?.id === 'data' && last.end === last.start + 8);
  return { chunks, end: Math.min(offset, file.sizeBytes), isClosed, size };
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
export async function readWav(file: FileWindow): Promise<FileMetadata | null> {
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
    packet: existing ? (await existing.read()).toString() : null,
    otherText: tag ? (await tag.read()).toString('latin1').replaceAll('\0', '') : '',
    write: ({ xmp }) =>
      resizeRiff(riff, [{ start, end, bytes: riffChunk('_PMX', Buffer.from(xmp)) }]),
  };
}
