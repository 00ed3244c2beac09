/**
 * Probes the files that providers deliver. Memory use does not depend on the size of the file,
 * except for JSON documents.
 */
import { readFile } from 'node:fs/promises';
import sharp from 'sharp';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { OutputSpec } from '../jobs/job-plan.ts';
import { createFileSource } from './byte-source.ts';
import { readContainer } from './container.ts';
import { readHead } from './media-head.ts';
import { pixelsMax, detectMediaType, detectionBytes } from './media-types.ts';

interface ProbedProperties {
  /** Extension of the storage key; storage/storage.ts maps it to the content type. */
  extension: string;
  width: number | null;
  height: number | null;
  durationSeconds: number | null;
  /** Whether a video has an audio track; null for other media. */
  hasAudio: boolean | null;
}

/**
 * Extensions of storage keys, keyed by sharp's format name (`pictureExtensions`) or by MIME type
 * (`recordingExtensions`).
 */
const pictureExtensions: Record<string, string> = { png: 'png', jpeg: 'jpg', webp: 'webp' };
const recordingExtensions: Record<string, string> = {
  'audio/mpeg': 'mp3',
  'audio/wav': 'wav',
  'video/mp4': 'mp4',
  'video/webm': 'webm',
};

/**
 * Reads the properties of a file that a provider delivered.
 * @throws ProviderFailure `failed` if the file is unreadable or has the wrong medium
 */
export async function probeMedia(
  path: string,
  medium: OutputSpec['medium'],
): Promise<ProbedProperties> {
  const properties = await (medium === 'image'
    ? probePicture(path)
    : medium === 'json'
      ? probeDocument(path)
      : probeRecording(path, medium));
  if (properties) return properties;
  throw new ProviderFailure(
    'failed',
    `the provider delivered a file that is not a readable ${medium} file`,
  );
}

async function probePicture(path: string): Promise<ProbedProperties | null> {
  // The type is checked before decoding, because the image library also decodes SVG, TIFF and other
  // formats.
  if ((await detectMediaType(await readHead(path, detectionBytes)))?.medium !== 'image')
    return null;
  try {
    const image = sharp(path, { limitInputPixels: pixelsMax, failOn: 'error' });
    const { format, width, height } = await image.metadata();
    const extension = pictureExtensions[format ?? ''];
    if (!extension || !width || !height) return null;
    // Decoding the last pixel decodes all pixels before it, so a truncated file fails here.
    await image
      .extract({ left: width - 1, top: height - 1, width: 1, height: 1 })
      .raw()
      .toBuffer();
    return { extension, width, height, durationSeconds: null, hasAudio: null };
  } catch {
    return null;
  }
}

/** Checks a JSON document, which fits in memory: provider-output.ts limits its size. */
async function probeDocument(path: string): Promise<ProbedProperties | null> {
  try {
    JSON.parse(await readFile(path, 'utf8'));
    return { extension: 'json', width: null, height: null, durationSeconds: null, hasAudio: null };
  } catch {
    return null;
  }
}

async function probeRecording(
  path: string,
  medium: OutputSpec['medium'],
): Promise<ProbedProperties | null> {
  const container = await readContainer(createFileSource(path));
  const extension = container && recordingExtensions[container.mimeType];
  if (!extension || !container.mimeType.startsWith(medium)) return null;
  return {
    extension,
    width: container.video?.width ?? null,
    height: container.video?.height ?? null,
    durationSeconds: container.durationSeconds,
    hasAudio: medium === 'video' ? container.hasAudio : null,
  };
}
