/**
 * Media files: the types that callers may upload, the contents of a container, and the properties
 * of an upload or output. The type of a file is read from its first bytes, never from its name or
 * content type. No type is executable in a browser (no HTML, no SVG). Memory use does not depend on
 * the size.
 */
import { buffer } from 'node:stream/consumers';
import { open, readFile } from 'node:fs/promises';
import { fileTypeFromBuffer } from 'file-type';
import { ALL_FORMATS, CustomSource, Input, type Source } from 'mediabunny';
import sharp from 'sharp';
import type { Storage } from './storage.ts';
import { GatewayError } from '../domain/errors.ts';
import type { OutputSpec } from '../jobs/job-plan.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';

/** Medium of a file. */
type Medium = 'image' | 'audio' | 'video';

/** One file type of the allow-list. */
export interface MediaType {
  extension: string;
  contentType: string;
  medium: Medium;
  /** Types of one family share a container, so their first bytes do not distinguish them. */
  family: string;
  /** Content types; the first one is used in responses. */
  aliases: readonly string[];
}

/** Largest file of a caller in bytes, by medium. */
export const fileBytesMax: Readonly<Record<Medium, number>> = {
  image: 25 * 1024 * 1024,
  audio: 100 * 1024 * 1024,
  video: 200 * 1024 * 1024,
};

/** Bytes at the start of a file that are enough to detect its type. */
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

/**
 * Returns the type that a Content-Type names, without its parameters; undefined if it is not on the
 * list.
 */
export function mediaTypeOf(contentType: string): MediaType | undefined {
  const wanted = contentType.split(';')[0]?.trim().toLowerCase() ?? '';
  return mediaTypes.find((type) => type.contentType === wanted || type.aliases.includes(wanted));
}

/** Returns the type that a file name's extension names; undefined if it is not on the list. */
export function mediaTypeOfExtension(extension: string): MediaType | undefined {
  const lower = extension.toLowerCase();
  const wanted = otherExtensions[lower] ?? lower;
  return mediaTypes.find((type) => type.extension === wanted);
}

/** Returns the type that the first bytes of a file show; undefined if it is not on the list. */
export async function sniff(head: Buffer): Promise<MediaType | undefined> {
  const found = await fileTypeFromBuffer(head);
  return found && mediaTypeOf(found.mime);
}

/** Contents of a container. */
interface ContainerFacts {
  /** Content type without parameters. */
  mimeType: string;
  durationSeconds: number;
  /** Pixels of the video track; null without one. */
  video: { width: number; height: number } | null;
  hasAudio: boolean;
}

/** Reads a container; null if it is unreadable. */
export async function readContainer(source: Source): Promise<ContainerFacts | null> {
  const input = new Input({ source, formats: ALL_FORMATS });
  try {
    const video = await input.getPrimaryVideoTrack();
    return {
      mimeType: (await input.getMimeType()).split(';')[0] ?? '',
      durationSeconds: await input.computeDuration(),
      video: video && { width: video.displayWidth, height: video.displayHeight },
      hasAudio: (await input.getPrimaryAudioTrack()) !== null,
    };
  } catch {
    return null;
  } finally {
    input.dispose();
  }
}

/** Makes a source over a stored object, so that a long file is measured without a copy. */
export function storedSource(storage: Pick<Storage, 'size' | 'open'>, key: string): Source {
  return new CustomSource({
    getSize: async () => (await storage.size(key)) ?? 0,
    async read(start, end) {
      const object = await storage.open(key, { first: start, last: end - 1 });
      return object ? new Uint8Array(await buffer(object.stream)) : new Uint8Array(0);
    },
    prefetchProfile: 'network',
    handleUnhandledError: () => {},
  });
}

/**
 * Makes a source over a local file. It reads wide ranges, because with narrow ranges ten minutes of
 * MP3 block the event loop for a second.
 */
export function fileSource(path: string): Source {
  const opened = open(path);
  return new CustomSource({
    getSize: async () => (await (await opened).stat()).size,
    async read(start, end) {
      const file = await opened;
      const { buffer: bytes, bytesRead } = await file.read(Buffer.alloc(end - start), {
        position: start,
      });
      return bytes.subarray(0, bytesRead);
    },
    dispose: () => opened.then((file) => file.close()).catch(() => {}),
    prefetchProfile: 'network',
    handleUnhandledError: () => {},
  });
}

/**
 * Bytes at the start of a file that contain its type and an image's dimensions after any metadata.
 */
export const headBytes = 1024 * 1024;

/**
 * Checks the start of a file: its type by the first bytes, its pixels by the header.
 * @returns the detected type
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
 */
export async function inspectHead(head: Buffer, agreed: string | null): Promise<MediaType> {
  const found = await sniff(head);
  const wanted = agreed === null ? found : mediaTypeOf(agreed);
  if (!found || !wanted || found.family !== wanted.family) {
    const expected = wanted ? `a file of the type ${wanted.contentType}` : 'of an accepted type';
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', `The content is not ${expected}.`);
  }
  if (wanted.medium === 'image') await refusePixelBomb(head);
  return wanted;
}

async function refusePixelBomb(head: Buffer): Promise<void> {
  let pixels = Number.NaN;
  try {
    // Only the header is read; nothing is decoded here.
    const { width, height } = await sharp(head, { limitInputPixels: false }).metadata();
    pixels = width * height;
  } catch {
    // A header without dimensions is rejected like one with too many pixels.
  }
  if (!(pixels > 0)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'The image has no readable header.');
  }
  if (pixels > pixelsMax) {
    throw new GatewayError('FILE_TOO_LARGE', `The image has more than ${pixelsMax} pixels.`);
  }
}

/** Returns the size limit of an upload, from the properties that are known of it. */
export function bytesMaxOf(contentType: string | null): number {
  const type = contentType === null ? undefined : mediaTypeOf(contentType);
  return type ? fileBytesMax[type.medium] : Math.max(...Object.values(fileBytesMax));
}

/** Properties of a probed file. */
interface Probe {
  /** Extension of the storage key; `contentTypes` of storage.ts contains its content type. */
  extension: string;
  width: number | null;
  height: number | null;
  durationSeconds: number | null;
  /** True if a video has a sound track; null for other media. */
  hasAudio: boolean | null;
}

/** Largest image in pixels; larger ones are decompression bombs. */
export const pixelsMax = 64_000_000;

/** File extensions by the format names of sharp and mediabunny. */
const pictures: Record<string, string> = { png: 'png', jpeg: 'jpg', webp: 'webp' };
const recordings: Record<string, string> = {
  'audio/mpeg': 'mp3',
  'audio/wav': 'wav',
  'video/mp4': 'mp4',
  'video/webm': 'webm',
};

/**
 * Probes a file of the expected medium.
 * @throws ProviderFailure `failed` if it is of another medium or unreadable
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
  // Checked before decoding, because the image library would also read SVG and TIFF.
  if ((await sniff(await headOf(path, sniffBytes)))?.medium !== 'image') return null;
  try {
    const image = sharp(path, { limitInputPixels: pixelsMax, failOn: 'error' });
    const { format, width, height } = await image.metadata();
    const extension = pictures[format ?? ''];
    if (!extension || !width || !height) return null;
    // The last pixel needs all earlier bytes, so a truncated file fails here.
    await image
      .extract({ left: width - 1, top: height - 1, width: 1, height: 1 })
      .raw()
      .toBuffer();
    return { extension, width, height, durationSeconds: null, hasAudio: null };
  } catch {
    return null;
  }
}

/** Reads the first bytes of a file. */
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

/** Documents are small (artifacts.ts limits them), so they are read as a whole. */
async function probeDocument(path: string): Promise<Probe | null> {
  try {
    JSON.parse(await readFile(path, 'utf8'));
    return { extension: 'json', width: null, height: null, durationSeconds: null, hasAudio: null };
  } catch {
    return null;
  }
}

async function probeRecording(path: string, medium: OutputSpec['medium']): Promise<Probe | null> {
  const found = await readContainer(fileSource(path));
  const extension = found && recordings[found.mimeType];
  if (!extension || !found.mimeType.startsWith(medium)) return null;
  return {
    extension,
    width: found.video?.width ?? null,
    height: found.video?.height ?? null,
    durationSeconds: found.durationSeconds,
    hasAudio: medium === 'video' ? found.hasAudio : null,
  };
}
