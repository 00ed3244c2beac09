/**
 * The file types that callers may bring: extension, content types, medium, size limit. Nothing a browser
 * runs is among them (no HTML, no SVG). What a file is, its first bytes say, never its name.
 */
import { fileTypeFromBuffer } from 'file-type';

/** What a file holds. */
export type Medium = 'image' | 'audio' | 'video';

/** One file type of the allow-list. */
export interface MediaType {
  extension: string;
  contentType: string;
  medium: Medium;
  /** Types of one family share a container, so their first bytes do not tell them apart. */
  family: string;
  /** Other spellings in use; the first content type is the one we write. */
  aliases: readonly string[];
}

/** Bytes that a caller's file may have, by medium. */
export const fileBytesMax: Readonly<Record<Medium, number>> = {
  image: 25 * 1024 * 1024,
  audio: 100 * 1024 * 1024,
  video: 200 * 1024 * 1024,
};

/** Bytes of a file's start that are enough to tell its type. */
export const sniffBytes = 4096;

const row = (
  medium: Medium,
  [extension, contentType, ...aliases]: [string, string, ...string[]],
  family = extension,
): MediaType => ({ extension, contentType, aliases, medium, family });

/** The allow-list. */
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

const otherExtensions: Readonly<Record<string, string>> = { jpeg: 'jpg', oga: 'ogg', opus: 'ogg' };

/** The type that a Content-Type names, parameters aside; undefined when it is not on the list. */
export function mediaTypeOf(contentType: string): MediaType | undefined {
  const wanted = contentType.split(';')[0]?.trim().toLowerCase() ?? '';
  return mediaTypes.find((type) => type.contentType === wanted || type.aliases.includes(wanted));
}

/** The type that a file name's extension names; undefined when it is not on the list. */
export function mediaTypeOfExtension(extension: string): MediaType | undefined {
  const lower = extension.toLowerCase();
  const wanted = otherExtensions[lower] ?? lower;
  return mediaTypes.find((type) => type.extension === wanted);
}

/** The type that the first bytes of a file show; undefined when it is not on the list. */
export async function sniff(head: Buffer): Promise<MediaType | undefined> {
  const found = await fileTypeFromBuffer(head);
  return found && mediaTypeOf(found.mime);
}
