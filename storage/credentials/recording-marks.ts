/** Metadata of MP4, WebM and MP3 files: where marks are found, and where one is written. */
import { metadataBytesMax, type ByteWindow } from '../byte-source.ts';
import { id3HeadBytes, readSyncsafe, readTagBytes } from '../media-chunks.ts';
import type { Edit, FileMetadata } from './content-credentials.ts';

const xmpBoxId = 'be7acfcb97a942e89c71999491e3afac';
const c2paBoxId = 'd8fec3d61b0e483c92975828877ec481';
const boxesMax = 100_000;

interface Box {
  type: string;
  start: number;
  end: number;
  headBytes: number;
  /** True if the box ends where the file ends. */
  isOpenEnded: boolean;
}

/**
 * MP4 (ISO 14496-12): boxes of the file. XMP and C2PA manifests are `uuid` boxes. Samples are found
 * by their offsets in the file, so no box before them may change its size.
 */
export async function readMp4(file: ByteWindow): Promise<FileMetadata | null> {
  let last: Box | null = null;
  let isSigned = false;
  let existing: (Box & { text: string }) | null = null;
  let offset = 0;
  for (let count = 0; offset + 8 <= file.sizeBytes && count < boxesMax; count += 1) {
    const head = await file.read(offset, 32);
    const box = parseBox(head, offset, file.sizeBytes);
    if (!box) return null;
    const id = box.type === 'uuid' ? head.toString('hex', box.headBytes, box.headBytes + 16) : '';
    if (id === c2paBoxId) isSigned = true;
    if (id === xmpBoxId && box.end - offset <= metadataBytesMax) {
      const textStart = offset + box.headBytes + 16;
      const text = (await file.read(textStart, box.end - textStart)).toString();
      existing = { ...box, text };
    }
    last = box;
    offset = box.end;
  }
  if (!last || offset !== file.sizeBytes) return null;
  const lastBox = last;
  return {
    isSigned,
    packet: existing?.text ?? null,
    write({ xmp }) {
      const edits: Edit[] = [];
      if (existing) edits.push(overwrite(existing.start + 4, Buffer.from('free')));
      // A box that extends to the end of the file gets its size, so that another can follow.
      if (lastBox.isOpenEnded)
        edits.push(overwrite(lastBox.start, uint32(lastBox.end - lastBox.start)));
      // Readers find `mfra` from the end of the file, so it stays the last box.
      const place = lastBox.type === 'mfra' ? lastBox.start : lastBox.end;
      const data = Buffer.concat([Buffer.from(xmpBoxId, 'hex'), Buffer.from(xmp)]);
      const bytes = Buffer.concat([uint32(data.length + 8), Buffer.from('uuid'), data]);
      return [...edits, { start: place, end: place, bytes }];
    },
  };
}

function parseBox(head: Buffer, start: number, fileBytes: number): Box | null {
  const size = head.readUInt32BE(0);
  const type = head.toString('latin1', 4, 8);
  const isLong = size === 1 && head.length >= 16;
  const length = isLong ? Number(head.readBigUInt64BE(8)) : size;
  const isOpenEnded = size === 0;
  const end = isOpenEnded ? fileBytes : start + length;
  if (end < start + 8 || end > fileBytes) return null;
  return { type, start, end, headBytes: isLong ? 16 : 8, isOpenEnded };
}

const overwrite = (start: number, bytes: Buffer): Edit => ({
  start,
  end: start + bytes.length,
  bytes,
});

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

const ebml = { segment: '18538067', cluster: '1f43b675', tags: '1254c367' };
const elementsMax = 10_000;
/** Bytes at the end of a file in which tags are found; more than a mark has. */
const tailBytes = 8192;

/**
 * WebM (RFC 9559): a mark is a Tags element at the end of the segment. Tags of providers precede the
 * clusters.
 */
export async function readWebm(file: ByteWindow): Promise<FileMetadata | null> {
  const header = await readElement(file, 0);
  const segment = header?.size == null ? null : await readElement(file, header.data + header.size);
  if (!segment || segment.id !== ebml.segment) return null;
  let text = (await file.read(Math.max(0, file.sizeBytes - tailBytes), tailBytes)).toString();
  let offset = segment.data;
  for (let count = 0; count < elementsMax; count += 1) {
    const element = await readElement(file, offset);
    if (!element || element.size === null || element.id === ebml.cluster) break;
    const end = element.data + element.size;
    if (element.id === ebml.tags && element.size <= metadataBytesMax) {
      text += (await file.read(element.data, element.size)).toString();
    }
    offset = end;
  }
  const { size, sizeStart, data } = segment;
  return {
    isSigned: false,
    packet: null,
    otherText: text,
    write({ properties }) {
      const tags = ebmlElement(
        ebml.tags,
        ebmlElement('7373', ebmlElement('63c0', Buffer.alloc(0)), ...properties.map(simpleTag)),
      );
      const appended = { start: file.sizeBytes, end: file.sizeBytes, bytes: tags };
      // A segment of unknown size ends where the file ends.
      if (size === null) return [appended];
      if (data + size !== file.sizeBytes) return null;
      const lengthBytes = data - sizeStart;
      if (size + tags.length >= 2 ** (7 * lengthBytes) - 1) return null;
      return [overwrite(sizeStart, ebmlSize(size + tags.length, lengthBytes)), appended];
    },
  };
}

/** Reads the head of an EBML element. `size` is null if it is unknown. */
async function readElement(file: ByteWindow, start: number) {
  const head = await file.read(start, 12);
  const idBytes = Math.clz32(head[0] ?? 0) - 23;
  const lengthBytes = Math.clz32(head[idBytes] ?? 0) - 23;
  if (head.length < idBytes + lengthBytes || idBytes > 4 || lengthBytes > 8) return null;
  const bytes = head.subarray(idBytes, idBytes + lengthBytes);
  const value = BigInt(`0x${bytes.toString('hex')}`) - (1n << BigInt(7 * lengthBytes));
  const isUnknown = value === (1n << BigInt(7 * lengthBytes)) - 1n;
  return {
    id: head.toString('hex', 0, idBytes),
    size: isUnknown ? null : Number(value),
    sizeStart: start + idBytes,
    data: start + idBytes + lengthBytes,
  };
}

function ebmlSize(size: number, lengthBytes = 8): Buffer {
  const value = BigInt(size) + (1n << BigInt(7 * lengthBytes));
  return Buffer.from(value.toString(16).padStart(2 * lengthBytes, '0'), 'hex');
}

function ebmlElement(id: string, ...parts: Buffer[]): Buffer {
  const data = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(id, 'hex'), ebmlSize(data.length), data]);
}

/** Builds a tag named as Matroska names tags: `DIGITAL_SOURCE_TYPE`. */
function simpleTag([name, value]: readonly [string, string]): Buffer {
  const tagName = toTagName(name)
    .replaceAll(/(?<=[a-z]|AI)(?=[A-Z][a-z])/g, '_')
    .toUpperCase();
  return ebmlElement(
    '67c8',
    ebmlElement('45a3', Buffer.from(tagName)),
    ebmlElement('4487', Buffer.from(value)),
  );
}

const toTagName = (property: string): string => property.replace(/^.*:/, '');

/** Flags of a tag whose frames cannot be read without more work: all but "experimental". */
const id3OtherFlags = 0b1101_1111;

/**
 * MP3: ID3v2 tags at the start of the file. XMP is the frame `PRIV` with the owner `XMP`; a C2PA
 * manifest is a frame `GEOB`.
 */
export async function readMp3(file: ByteWindow): Promise<FileMetadata | null> {
  let text = '';
  let offset = 0;
  let first: { version: number; flags: number; end: number; frames: Buffer } | null = null;
  for (;;) {
    const head = Buffer.from(await file.read(offset, id3HeadBytes));
    const tagBytes = readTagBytes(head);
    if (tagBytes === 0) break;
    const end = offset + tagBytes;
    const framesBytes = Math.min(tagBytes, metadataBytesMax) - id3HeadBytes;
    const frames = Buffer.from(await file.read(offset + id3HeadBytes, framesBytes));
    first ??= { version: head[3] ?? 0, flags: head[5] ?? 0, end, frames };
    text += frames.toString('latin1').replaceAll('\0', '');
    offset = end;
  }
  const tag = first && canExtend(first) ? splitFrames(first) : null;
  return {
    isSigned: /GEOB[^]{0,64}?application\/(?:x-)?c2pa/.test(text),
    packet: tag?.packet ?? null,
    otherText: text,
    write({ xmp, properties }) {
      const version = tag ? (first?.version ?? 4) : 4;
      const frames = [
        id3Frame(version, 'PRIV', Buffer.from(`XMP\0${xmp}`)),
        ...properties.map(([name, value]) =>
          // 3: UTF-8 (ID3v2.4); 0: Latin-1 (ID3v2.3), in which all values but a model are.
          id3Frame(
            version,
            'TXXX',
            Buffer.concat([
              Buffer.from([version === 4 ? 3 : 0]),
              Buffer.from(`${toTagName(name)}\0${value}`, version === 4 ? 'utf8' : 'latin1'),
            ]),
          ),
        ),
        ...(tag ? [tag.otherFrames] : []),
      ];
      const bytes = id3Tag(version, Buffer.concat(frames));
      // A tag in another form stays where it is, behind ours: readers accept several.
      return [{ start: 0, end: tag && first ? first.end : 0, bytes }];
    },
  };
}

/** Returns whether the frames of a tag are complete and in the plain form. */
const canExtend = (tag: { version: number; flags: number; end: number; frames: Buffer }): boolean =>
  (tag.version === 3 || tag.version === 4) &&
  (tag.flags & id3OtherFlags) === 0 &&
  tag.frames.length === tag.end - id3HeadBytes;

/** Separates the XMP packet from the other frames of a tag; null if the tag is malformed. */
function splitFrames({ version, frames }: { version: number; frames: Buffer }) {
  const otherFrames: Buffer[] = [];
  let packet: string | null = null;
  let offset = 0;
  while (offset + id3HeadBytes <= frames.length && frames[offset] !== 0) {
    const size = version === 4 ? readSyncsafe(frames, offset + 4) : frames.readUInt32BE(offset + 4);
    const end = offset + id3HeadBytes + size;
    if (end > frames.length) return null;
    const isXmp = frames.toString('latin1', offset, offset + 4) === 'PRIV';
    const data = frames.subarray(offset + id3HeadBytes, end);
    if (isXmp && data.toString('latin1', 0, 4) === 'XMP\0') packet = data.toString('utf8', 4);
    else otherFrames.push(frames.subarray(offset, end));
    offset = end;
  }
  return { packet, otherFrames: Buffer.concat([...otherFrames, frames.subarray(offset)]) };
}

function id3Frame(version: number, id: string, data: Buffer): Buffer {
  const size = version === 4 ? syncsafe(data.length) : uint32(data.length);
  return Buffer.concat([Buffer.from(id), size, Buffer.alloc(2), data]);
}

function id3Tag(version: number, frames: Buffer): Buffer {
  return Buffer.concat([
    Buffer.from(`ID3${String.fromCharCode(version)}\0\0`),
    syncsafe(frames.length),
    frames,
  ]);
}

const syncsafe = (size: number): Buffer =>
  Buffer.from([(size >> 21) & 127, (size >> 14) & 127, (size >> 7) & 127, size & 127]);
