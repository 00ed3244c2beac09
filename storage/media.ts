/**
 * Media types and inspection of media files: the types that callers may upload, the properties of
 * containers, and the checks of uploads and outputs. The first bytes of a file decide its type, not
 * its name or its content type. The allowed types contain nothing that a browser executes (no HTML,
 * no SVG). The memory used does not depend on the file's size.
 */
import { open, readFile } from 'node:fs/promises';
import { fileTypeFromBuffer } from 'file-type';
import sharp from 'sharp';
import { fileSource } from './byte-source.ts';
import { readContainer } from './container.ts';
import { GatewayError } from '../domain/errors.ts';
import type { OutputSpec } from '../jobs/job-plan.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';

/** Medium of a file. */
type Medium = 'image' | 'audio' | 'video';

/** Allowed file type. */
export interface MediaType {
  extension: string;
  contentType: string;
  medium: Medium;
  /** Container format: types of one family cannot be distinguished by their first bytes. */
  family: string;
  /** Other content types in use for this type; they are accepted, and `contentType` is stored. */
  aliases: readonly string[];
}

/** Maximum size of a caller's file in bytes, by medium. */
export const fileBytesMax: Readonly<Record<Medium, number>> = {
  image: 25 * 1024 * 1024,
  audio: 100 * 1024 * 1024,
  video: 200 * 1024 * 1024,
};

/** Number of bytes at the start of a file that suffice to detect its type. */
export const sniffBytes = 4096;

const row = (
  medium: Medium,
  [extension, contentType, ...aliases]: [string, string, ...string[]],
  family = extension,
): MediaType => ({ extension, contentType, aliases, medium, family });

/** All allowed file types. */
export const mediaTypes: readonly MediaType[] = [
  row('image', ['png', 'image/png', 'image/apng']),
  row('image', ['jpg', 'image/jpeg', 'image/jpg']),
  row('image', ['webp', 'image/webp']),
  row('image', ['gif', 'image/gif']),
  row('audio', ['mp3', 'audio/mpeg', 'audio/mp3']),
  row('audio', ['wav', 'audio/wav', 'audio/x-wav', 'audio/wave', 'audio/vnd.wave']),
  row('audio', ['m4a', 'audio/mp4', 'audio/x-m4a', 'audio/m4a'], 'iso-media'),
  row('audio', ['flac', 'audio/flac', 'audio/x-flac']),
  row('audio', ['ogg', 'audio/ogg', 'application/ogg']),
  row('video', ['mp4', 'video/mp4', 'video/x-m4v', 'video/3gpp'], 'iso-media'),
  row('video', ['webm', 'video/webm']),
  row('video', ['mov', 'video/quicktime'], 'iso-media'),
];

/** Other file extensions in use, with the extension that is stored. */
const otherExtensions: Readonly<Record<string, string>> = { jpeg: 'jpg', oga: 'ogg', opus: 'ogg' };

/**
 * Returns the allowed type of a Content-Type, whose parameters are ignored; undefined if it is not
 * allowed.
 */
export function mediaTypeOf(contentType: string): MediaType | undefined {
  const name = contentType.split(';')[0]?.trim().toLowerCase() ?? '';
  return mediaTypes.find((type) => type.contentType === name || type.aliases.includes(name));
}

/** Returns the allowed type of a file name's extension; undefined if it is not allowed. */
export function mediaTypeOfExtension(extension: string): MediaType | undefined {
  const lower = extension.toLowerCase();
  const usual = otherExtensions[lower] ?? lower;
  return mediaTypes.find((type) => type.extension === usual);
}

/** Returns the allowed type that the first bytes of a file have; undefined if it is not allowed. */
export async function sniff(head: Buffer): Promise<MediaType | undefined> {
  const detected = await fileTypeFromBuffer(head);
  return detected && mediaTypeOf(detected.mime);
}

/**
 * Number of bytes at the start of a file that suffice to detect its type, and a picture's size
 * behind its metadata.
 */
export const headBytes = 1024 * 1024;

/**
 * Checks the start of a file: its type by the first bytes, and the number of pixels of a picture by
 * the header.
 * @param declaredType content type that the caller declared; null if none
 * @returns the type of the file; types with the same container are not distinguished, so the
 * declared type is returned
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
 */
export async function inspectHead(head: Buffer, declaredType: string | null): Promise<MediaType> {
  const detected = await sniff(head);
  const type = declaredType === null ? detected : mediaTypeOf(declaredType);
  if (!detected || !type || detected.family !== type.family) {
    const expected = type ? `a file of the type ${type.contentType}` : 'of an accepted type';
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', `The content is not ${expected}.`);
  }
  if (type.medium === 'image') await refusePixelBomb(head);
  return type;
}

/** Rejects a picture whose header names too many pixels, or no size. */
async function refusePixelBomb(head: Buffer): Promise<void> {
  let pixels = Number.NaN;
  try {
    // `metadata` reads only the header and decodes no pixels.
    const { width, height } = await sharp(head, { limitInputPixels: false }).metadata();
    pixels = width * height;
  } catch {
    // An unreadable header leaves `pixels` NaN, so the picture is rejected below.
  }
  if (!(pixels > 0)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'The image has no readable header.');
  }
  if (pixels > pixelsMax) {
    throw new GatewayError('FILE_TOO_LARGE', `The image has more than ${pixelsMax} pixels.`);
  }
}

/**
 * Returns the maximum size of an upload in bytes: that of its declared type, or the largest of all
 * types if null.
 */
export function bytesMaxOf(contentType: string | null): number {
  const type = contentType === null ? undefined : mediaTypeOf(contentType);
  return type ? fileBytesMax[type.medium] : Math.max(...Object.values(fileBytesMax));
}

/** Properties of a probed file. */
interface Probe {
  /** Extension of the storage key; storage/storage.ts maps it to the content type. */
  extension: string;
  width: number | null;
  height: number | null;
  durationSeconds: number | null;
  /** True if a video has a sound track; null for other media. */
  hasAudio: boolean | null;
}

/** Maximum number of pixels of a picture; protects against decompression bombs. */
export const pixelsMax = 64_000_000;

/**
 * Extensions of the storage keys, by the format names of sharp (`pictures`) and mediabunny
 * (`recordings`).
 */
const pictures: Record<string, string> = { png: 'png', jpeg: 'jpg', webp: 'webp' };
const recordings: Record<string, string> = {
  'audio/mpeg': 'mp3',
  'audio/wav': 'wav',
  'video/mp4': 'mp4',
  'video/webm': 'webm',
};

/**
 * Reads the properties of a file that a provider delivered.
 * @throws ProviderFailure `failed` if the file does not have the expected medium or cannot be read
 */
export async function probeMedia(path: string, medium: OutputSpec['medium']): Promise<Probe> {
  const probe = await (medium === 'image'
    ? probePicture(path)
    : medium === 'json'
      ? probeDocument(path)
      : probeRecording(path, medium));
  if (probe) return probe;
  throw new ProviderFailure(
    'failed',
    `the file that the provider delivered is not of the type ${medium}`,
  );
}

async function probePicture(path: string): Promise<Probe | null> {
  // The type is checked before decoding, because the image library also decodes SVG, TIFF and other
  // formats.
  if ((await sniff(await headOf(path, sniffBytes)))?.medium !== 'image') return null;
  try {
    const image = sharp(path, { limitInputPixels: pixelsMax, failOn: 'error' });
    const { format, width, height } = await image.metadata();
    const extension = pictures[format ?? ''];
    if (!extension || !width || !height) return null;
    // To decode the last pixel, the library decodes all pixels before it, so a truncated file fails
    // here.
    await image
      .extract({ left: width - 1, top: height - 1, width: 1, height: 1 })
      .raw()
      .toBuffer();
    return { extension, width, height, durationSeconds: null, hasAudio: null };
  } catch {
    return null;
  }
}

/** Reads the first bytes of a file, at most `bytesMax`. */
export async function headOf(path: string, bytesMax: number): Promise<Buffer> {
  const file = await open(path);
  try {
    const head = Buffer.alloc(bytesMax);
    const { bytesRead } = await file.read(head, 0, bytesMax, 0);
    return head.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Checks a JSON document. It is read into memory, because storage/artifacts.ts limits its size. */
async function probeDocument(path: string): Promise<Probe | null> {
  try {
    JSON.parse(await readFile(path, 'utf8'));
    return { extension: 'json', width: null, height: null, durationSeconds: null, hasAudio: null };
  } catch {
    return null;
  }
}

async function probeRecording(path: string, medium: OutputSpec['medium']): Promise<Probe | null> {
  const container = await readContainer(fileSource(path));
  const extension = container && recordings[container.mimeType];
  if (!extension || !container.mimeType.startsWith(medium)) return null;
  return {
    extension,
    width: container.video?.width ?? null,
    height: container.video?.height ?? null,
    durationSeconds: container.durationSeconds,
    hasAudio: medium === 'video' ? container.hasAudio : null,
  };
}
