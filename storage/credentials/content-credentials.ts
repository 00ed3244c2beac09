/**
 * Marks of generated media. Detects those of providers (C2PA manifests, and IPTC's digital source
 * type in XMP, ID3 or Matroska tags), and writes the gateway's own where there is none
 * (docs/files.md).
 */
import { open, type FileHandle } from 'node:fs/promises';
import type { StoredArtifact } from '../../domain/job-plan.ts';
import type { Edit, FileMetadata } from './file-metadata.ts';
import { withFileWindow, type FileWindow } from './file-window.ts';
import { readJpeg, readPng, readWebp } from './pictures.ts';
import { readMp3, readMp4, readWebm } from './recordings.ts';
import { readWav } from './riff.ts';
import { buildPacket, isMark, listProperties, type Mark } from './xmp.ts';

const copyBytes = 512 * 1024;

export type ContentCredentials = StoredArtifact['contentCredentials'];

/** Readers of metadata, keyed by the extension of the storage key. */
const readers: Record<string, (file: FileWindow) => Promise<FileMetadata | null>> = {
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
async function readMetadata(file: FileWindow, extension: string): Promise<FileMetadata | null> {
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
