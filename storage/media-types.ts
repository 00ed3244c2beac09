/**
 * Media types: the file types that callers may upload, with their limits. The first bytes of a file
 * decide its type, not its name or its content type. The allowed types contain nothing that a
 * browser executes (no HTML, no SVG).
 */
import { fileTypeFromBuffer } from 'file-type';

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

/** Maximum number of pixels of a picture; protects against decompression bombs. */
export const pixelsMax = 64_000_000;

/**
 * Returns the maximum size of an upload in bytes: that of its declared type, or the largest of all
 * types if null.
 */
export function bytesMaxOf(contentType: string | null): number {
  const type = contentType === null ? undefined : mediaTypeOf(contentType);
  return type ? fileBytesMax[type.medium] : Math.max(...Object.values(fileBytesMax));
}
