/** Looks at stored bytes: what they are, how large, how long. Never believes a content type. */
import { open, readFile } from 'node:fs/promises';
import { FilePathSource } from 'mediabunny';
import sharp from 'sharp';
import type { OutputSpec } from '../../jobs/job-plan.ts';
import { ProviderFailure } from '../providers/provider.ts';
import { readContainer } from './media-container.ts';
import { sniff, sniffBytes } from './media-types.ts';

/** What a file turned out to be. */
export interface Probe {
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
  throw new ProviderFailure('failed', `the provider delivered something that is no ${medium}`);
}

async function probePicture(path: string): Promise<Probe | null> {
  // Before a decoder sees it: the image library would read SVG, TIFF and more.
  if ((await sniff(await headOf(path)))?.medium !== 'image') return null;
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

async function headOf(path: string): Promise<Buffer> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(sniffBytes), 0, sniffBytes, 0);
    return buffer.subarray(0, bytesRead);
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
  const found = await readContainer(new FilePathSource(path));
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
