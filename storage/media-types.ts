/**
 * File types that callers may upload, with their limits. A file's first bytes determine its type;
 * its name and Content-Type do not. No allowed type can contain anything that a browser executes
 * (no HTML, no SVG).
 */
import { fileTypeFromBuffer } from 'file-type';

type Medium = 'image' | 'audio' | 'video';

/** Allowed file type. */
export interface MediaType {
  extension: string;
  contentType: string;
  medium: Medium;
  /** Container format. Types of the same family cannot be distinguished by their first bytes. */
  family: string;
  /** Other content types that callers may declare; files are stored with `contentType`. */
  aliases: readonly string[];
}

/** Maximum size of an uploaded file in bytes, keyed by medium. */
export const fileBytesMax: Readonly<Record<Medium, number>> = {
  image: 25 * 1024 * 1024,
  audio: 100 * 1024 * 1024,
  video: 200 * 1024 * 1024,
};

/** Number of bytes at the start of a file that are enough to detect its type. */
export const detectionBytes = 4096;

const createType = (
  medium: Medium,
  [extension, contentType, ...aliases]: [string, string, ...string[]],
  family = extension,
): MediaType => ({ extension, contentType, aliases, medium, family });

/** All allowed file types. */
export const mediaTypes: readonly MediaType[] = [
  createType('image', ['png', 'image/png', 'image/apng']),
  createType('image', ['jpg', 'image/jpeg', 'image/jpg']),
  createType('image', ['webp', 'image/webp']),
  createType('image', ['gif', 'image/gif']),
  createType('audio', ['mp3', 'audio/mpeg', 'audio/mp3']),
  createType('audio', ['wav', 'audio/wav', 'audio/x-wav', 'audio/wave', 'audio/vnd.wave']),
  createType('audio', ['m4a', 'audio/mp4', 'audio/x-m4a', 'audio/m4a'], 'iso-media'),
  createType('audio', ['flac', 'audio/flac', 'audio/x-flac']),
  createType('audio', ['ogg', 'audio/ogg', 'application/ogg']),
  createType('video', ['mp4', 'video/mp4', 'video/x-m4v', 'video/3gpp'], 'iso-media'),
  createType('video', ['webm', 'video/webm']),
  createType('video', ['mov', 'video/quicktime'], 'iso-media'),
];

/** Other accepted file extensions, mapped to the extension under which the file is stored. */
const otherExtensions: Readonly<Record<string, string>> = { jpeg: 'jpg', oga: 'ogg', opus: 'ogg' };

/**
 * Returns the allowed type for a Content-Type, ignoring its parameters; undefined if the type is
 * not allowed.
 */
export function findMediaType(contentType: string): MediaType | undefined {
  const name = contentType.split(';')[0]?.trim().toLowerCase() ?? '';
  return mediaTypes.find((type) => type.contentType === name || type.aliases.includes(name));
}

/** Returns the allowed type for a file extension; undefined if the type is not allowed. */
export function findMediaTypeByExtension(extension: string): MediaType | undefined {
  const lowercase = extension.toLowerCase();
  const storedExtension = otherExtensions[lowercase] ?? lowercase;
  return mediaTypes.find((type) => type.extension === storedExtension);
}

/** Detects the type of a file from its first bytes; undefined if the type is not allowed. */
export async function detectMediaType(head: Buffer): Promise<MediaType | undefined> {
  const detected = await fileTypeFromBuffer(head);
  return detected && findMediaType(detected.mime);
}

/** Maximum number of pixels of a picture. The limit protects against decompression bombs. */
export const pixelsMax = 64_000_000;

/**
 * Returns the maximum size of an upload in bytes: the limit of its declared type. If `contentType`
 * is null or not an allowed type, returns the largest limit.
 */
export function findUploadBytesMax(contentType: string | null): number {
  const type = contentType === null ? undefined : findMediaType(contentType);
  return type ? fileBytesMax[type.medium] : Math.max(...Object.values(fileBytesMax));
}
