/**
 * Marks of generated media. Detects those of providers (C2PA manifests, and IPTC's digital source
 * type in XMP, ID3 or Matroska tags), and writes the gateway's own where there is none
 * (docs/files.md).
 */
import { open, type FileHandle } from 'node:fs/promises';
import type { StoredArtifact } from '../../domain/job-plan.ts';
import { withFileWindow, type ByteWindow } from '../byte-source.ts';
import { readJpeg, readPng, readWebp } from './picture-marks.ts';
import { readMp3, readMp4, readWebm } from './recording-marks.ts';
import { readWav } from './riff.ts';

/** Replacement of the bytes from `start` (included) to `end` (excluded). */
export interface Edit {
  start: number;
  end: number;
  bytes: Buffer;
}

/** Mark in the two forms that formats take: an XMP packet, or names and values. */
export interface WrittenMark {
  xmp: string;
  properties: readonly (readonly [name: string, value: string])[];
}

export interface FileMetadata {
  /** True if the file has a C2PA manifest, which a change of the file would invalidate. */
  isSigned: boolean;
  /** XMP packet of the file; null if it has none. */
  packet: string | null;
  /** Text of other metadata that may contain a mark. */
  otherText?: string;
  /** Returns the edits that write a mark, in the order of the file; null if none can be written. */
  write: (mark: WrittenMark) => Edit[] | null;
}

/** Content of a mark. The prompt is not part of it, because a file is passed on to others. */
export interface Mark {
  jobId: string;
  model: string | null;
  /** True if the output contains a picture or film of the caller. */
  hasCallerMedia: boolean;
  createdAt: Date;
}

const newsCodes = 'http://cv.iptc.org/newscodes/digitalsourcetype/';

/** Names and values of a mark, in the notation of XMP. */
function listProperties(mark: Mark): [name: string, value: string][] {
  const type = mark.hasCallerMedia
    ? 'compositeWithTrainedAlgorithmicMedia'
    : 'trainedAlgorithmicMedia';
  return [
    ['Iptc4xmpExt:DigitalSourceType', newsCodes + type],
    ...(mark.model === null ? [] : [['Iptc4xmpExt:AISystemUsed', mark.model] as [string, string]]),
    ['dc:identifier', mark.jobId],
    ['xmp:CreateDate', mark.createdAt.toISOString()],
    ['xmp:CreatorTool', 'Studio Gateway'],
  ];
}

/** IPTC's terms for media that an algorithm made or changed. */
const generatedTerms =
  /digitalsourcetype\/(?:\w*algorithmicmedia|compositesynthetic|algorithmicallyenhanced)/i;

/**
 * Returns whether metadata marks a file as generated. An XMP packet that refers to a manifest
 * elsewhere (`dcterms:provenance`) belongs to a signed file.
 */
function isMark(text: string): boolean {
  return generatedTerms.test(text) || /\bdcterms:provenance\b/.test(text);
}

/** Returns a packet with the mark. Other properties of an existing packet are kept. */
function buildPacket(mark: Mark, existing: string | null): string {
  const properties = listProperties(mark);
  const attributes = properties.map(([name, value]) => `${name}="${escapeXml(value)}"`).join(' ');
  const description = `<rdf:Description rdf:about="" ${namespaces} ${attributes}/>`;
  const kept = existing && keepOtherProperties(existing, properties);
  const end = kept ? kept.lastIndexOf('</rdf:RDF>') : -1;
  if (kept && end >= 0) return kept.slice(0, end) + description + kept.slice(end);
  if (kept) return kept;
  return `<?xpacket begin="\uFEFF" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">${description}</rdf:RDF></x:xmpmeta><?xpacket end="w"?>`;
}

const namespaces = [
  'xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"',
  'xmlns:dc="http://purl.org/dc/elements/1.1/"',
  'xmlns:xmp="http://ns.adobe.com/xap/1.0/"',
].join(' ');

/**
 * Removes the properties of the mark from an existing packet, and its padding. Returns null if the
 * packet is not in the usual form; then it is replaced.
 */
function keepOtherProperties(packet: string, properties: [string, string][]): string | null {
  if (!packet.includes('xmlns:rdf=') || !packet.includes('</rdf:RDF>')) return null;
  return properties
    .reduce(
      (text, [name]) =>
        text
          .replaceAll(new RegExp(`\\s${name}\\s*=\\s*("[^"]*"|'[^']*')`, 'g'), '')
          .replaceAll(new RegExp(`<${name}(?:\\s[^>]*)?(?:/>|>[^]*?</${name}>)`, 'g'), ''),
      packet,
    )
    .replace(/(?<!\s)\s+(<\?xpacket end)/, '$1');
}

const escapeXml = (text: string): string =>
  text.replaceAll(/[<>&"]/g, (character) => `&#${character.charCodeAt(0)};`);

const copyBytes = 512 * 1024;

export type ContentCredentials = StoredArtifact['contentCredentials'];

/** Readers of metadata, keyed by the extension of the storage key. */
const readers: Record<string, (file: ByteWindow) => Promise<FileMetadata | null>> = {
  png: readPng,
  jpg: readJpeg,
  webp: readWebp,
  wav: readWav,
  mp3: readMp3,
  mp4: readMp4,
  webm: readWebm,
};

interface MarkOptions {
  extension: string;
  /** Returns the path for a new file. */
  newPath: () => Promise<string>;
}

/** Reads which marks a file has. A mark with the id of the job is the gateway's own. */
export async function readCredentials(
  path: string,
  { extension, jobId }: { extension: string; jobId: string },
): Promise<ContentCredentials> {
  return classify(await withFileWindow(path, (file) => readMetadata(file, extension)), jobId);
}

/**
 * Writes a mark into a file, unless it has one. Only metadata is changed, and never that of a signed
 * file. The marked file is the same file if nothing before its end moves, and a new file otherwise.
 */
export async function markFile(
  path: string,
  mark: Mark,
  { extension, newPath }: MarkOptions,
): Promise<{ path: string; credentials: ContentCredentials }> {
  const { metadata, sizeBytes } = await withFileWindow(path, async (file) => ({
    metadata: await readMetadata(file, extension),
    sizeBytes: file.sizeBytes,
  }));
  const credentials = classify(metadata, mark.jobId);
  if (!metadata || credentials !== 'none') return { path, credentials };
  const edits = metadata.write({
    xmp: buildPacket(mark, metadata.packet),
    properties: listProperties(mark),
  });
  if (!edits) return { path, credentials: 'none' };
  const isInPlace = edits.every(
    ({ start, end, bytes }) => end - start === bytes.length || start === sizeBytes,
  );
  if (isInPlace) await overwriteParts(path, edits);
  const markedPath = isInPlace ? path : await newPath();
  if (!isInPlace) await copyWithEdits(path, edits, markedPath);
  return { path: markedPath, credentials: 'gateway' };
}

/** Reads the metadata of a file; null if its format has none or the file is malformed. */
async function readMetadata(file: ByteWindow, extension: string): Promise<FileMetadata | null> {
  try {
    return (await readers[extension]?.(file)) ?? null;
  } catch (error) {
    // A read beyond the end of a buffer: the file is cut off, or a size in it is wrong.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function classify(metadata: FileMetadata | null, jobId: string): ContentCredentials {
  if (!metadata) return 'none';
  const text = `${metadata.packet ?? ''}\n${metadata.otherText ?? ''}`;
  if (metadata.isSigned) return 'provider';
  if (!isMark(text)) return 'none';
  return text.includes(jobId) ? 'gateway' : 'provider';
}

async function overwriteParts(path: string, edits: readonly Edit[]): Promise<void> {
  const file = await open(path, 'r+');
  try {
    for (const { start, bytes } of edits) await file.write(bytes, 0, bytes.length, start);
  } finally {
    await file.close();
  }
}

/**
 * Writes a copy of a file with edits. It copies through one buffer, because streams cost three times
 * as much CPU.
 */
async function copyWithEdits(path: string, edits: readonly Edit[], to: string): Promise<void> {
  const source = await open(path);
  const target = await open(to, 'wx').catch(async (error: unknown) => {
    await source.close();
    throw error;
  });
  const buffer = Buffer.allocUnsafe(copyBytes);
  try {
    let offset = 0;
    for (const { start, end, bytes } of [...edits, { start: Infinity, end: 0, bytes: null }]) {
      while (offset < start) {
        const length = Math.min(copyBytes, start - offset);
        const { bytesRead } = await source.read(buffer, 0, length, offset);
        if (bytesRead === 0) break;
        await writeAll(target, buffer.subarray(0, bytesRead));
        offset += bytesRead;
      }
      if (bytes) await writeAll(target, bytes);
      offset = end;
    }
  } finally {
    await Promise.all([source.close(), target.close()]);
  }
}

/** Writes bytes at the current position; a single write may write only some of them. */
async function writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    written += (await file.write(bytes, written, bytes.length - written)).bytesWritten;
  }
}
