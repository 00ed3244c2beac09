/**
 * Probes the files that providers deliver. Memory use does not depend on the size of the file,
 * except for JSON documents.
 */
import { readFile } from 'node:fs/promises';
import sharp from 'sharp';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { OutputSpec } from '../domain/job-plan.ts';
import { createFileSource } from './byte-source.ts';
import { readMedia } from './media-reader.ts';
import { pixelsMax } from './media-types.ts';

interface ProbedProperties {
  /** Extension of the storage key; storage/storage.ts maps it to the content type. */
  extension: string;
  width: number | null;
  height: number | null;
  durationSeconds: number | null;
  /** Whether a video has an audio track; null for other media. */
  hasAudio: boolean | null;
}

/** Extensions of the formats that providers may deliver. */
const pictureExtensions = new Set(['png', 'jpg', 'webp']);
const recordingExtensions = new Set(['mp3', 'wav', 'mp4', 'webm']);

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
  // The header is read before decoding, because the image library also decodes SVG, TIFF and other
  // formats, and spends seconds on a malicious header.
  const facts = await readMedia(createFileSource(path));
  if (facts.kind !== 'picture' || !pictureExtensions.has(facts.type.extension)) return null;
  const { width, height } = facts;
  if (width * height > pixelsMax) return null;
  try {
    // Decoding the last pixel decodes all pixels before it, so a truncated file fails here.
    await sharp(path, { limitInputPixels: pixelsMax, failOn: 'error' })
      .autoOrient()
      .extract({ left: width - 1, top: height - 1, width: 1, height: 1 })
      .raw()
      .toBuffer();
    const { extension } = facts.type;
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
  const facts = await readMedia(createFileSource(path));
  if (facts.kind !== 'recording' || facts.type.medium !== medium) return null;
  const { type, video, audio } = facts;
  if (!recordingExtensions.has(type.extension)) return null;
  return {
    extension: type.extension,
    width: video?.width ?? null,
    height: video?.height ?? null,
    durationSeconds: (video ?? audio)?.durationSeconds ?? null,
    hasAudio: medium === 'video' ? audio !== null : null,
  };
}
