/**
 * What media files are: the types that callers may bring, what a container holds, what an upload or an output
 * turns out to be. A file is what its first bytes say, never what its name or a content type says; nothing that a
 * browser runs is among the types (no HTML, no SVG). Memory stays flat.
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

/** What a file holds. */
type Medium = 'image' | 'audio' | 'video';

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

/** What a container holds. */
interface ContainerFacts {
  /** Without parameters. */
  mimeType: string;
  durationSeconds: number;
  /** Pixels of its picture; null: it has none. */
  video: { width: number; height: number } | null;
  hasAudio: boolean;
}

/** Reads a container; null when it is none that can be read. */
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

/** A stored object to be read: a long one is not copied to be measured. */
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

/** A local file to be read; in wide ranges, because in narrow ones ten minutes of MP3 hold the event loop for a second. */
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

/** Enough of a file's start to tell its type, and a picture's size behind whatever metadata. */
export const headBytes = 1024 * 1024;

/**
 * Checks the start of a file against what was agreed: type by first bytes, pixels by the header.
 * @returns the type that it is taken for.
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
    // Falls through: a header that says nothing is refused like one that says too much.
  }
  if (!(pixels > 0)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'The image has no readable header.');
  }
  if (pixels > pixelsMax) {
    throw new GatewayError('FILE_TOO_LARGE', `The image has more than ${pixelsMax} pixels.`);
  }
}

/** Bytes that an upload may have, by what is known of it. */
export function bytesMaxOf(contentType: string | null): number {
  const type = contentType === null ? undefined : mediaTypeOf(contentType);
  return type ? fileBytesMax[type.medium] : Math.max(...Object.values(fileBytesMax));
}

/** What a file turned out to be. */
interface Probe {
  /** Extension of the storage key; `contentTypes` of storage.ts names the content type. */
  extension: string;
  width: number | null;
  height: number | null;
  durationSeconds: number | null;
  /** Whether a video has a sound track; null for other media. */
  hasAudio: boolean | null;
}

/** No picture of ours has more; a decompression bomb claims to. */
export const pixelsMax = 64_000_000;

/** Formats of sharp and mediabunny → extensions that we store. */
const pictures: Record<string, string> = { png: 'png', jpeg: 'jpg', webp: 'webp' };
const recordings: Record<string, string> = {
  'audio/mpeg': 'mp3',
  'audio/wav': 'wav',
  'video/mp4': 'mp4',
  'video/webm': 'webm',
};

/**
 * Probes a file of the expected medium.
 * @throws ProviderFailure `failed` when it is something else or cannot be opened
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
  // Before a decoder sees it: the image library would read SVG, TIFF and more.
  if ((await sniff(await headOf(path, sniffBytes)))?.medium !== 'image') return null;
  try {
    const image = sharp(path, { limitInputPixels: pixelsMax, failOn: 'error' });
    const { format, width, height } = await image.metadata();
    const extension = pictures[format ?? ''];
    if (!extension || !width || !height) return null;
    // The last pixel needs all before it, so a truncated file fails here, not at the customer's.
    await image
      .extract({ left: width - 1, top: height - 1, width: 1, height: 1 })
      .raw()
      .toBuffer();
    return { extension, width, height, durationSeconds: null, hasAudio: null };
  } catch {
    return null;
  }
}

/** The first bytes of a file, at most so many. */
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

/** Documents are small (artifacts.ts caps them), so one may be read as a whole. */
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
