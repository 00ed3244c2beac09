/** Measures stored pictures and videos whose size or duration determines a price. */
import { buffer } from 'node:stream/consumers';
import sharp from 'sharp';
import type { InputMeasurements } from '../../studio/draft-plan.ts';
import { createObjectSource } from '../byte-source.ts';
import { readContainer } from '../container.ts';
import { pixelsMax, detectMediaType } from '../media-types.ts';
import type { Storage } from '../storage.ts';

/** Input that cannot be read or has an unsupported type. The caller receives the message. */
export class InputUnreadable extends Error {
  override readonly name = 'InputUnreadable';
}

/** Error messages for an input of an unsupported type, keyed by the expected medium. */
export const unsupportedTypeMessages = {
  image: 'must be a PNG, JPEG, WebP or GIF',
  video: 'must be an MP4, WebM or QuickTime video',
};

/**
 * Number of bytes read from the start of a picture. They contain the picture's size even after long
 * metadata.
 */
const headBytesMax = 2 * 1024 * 1024;

/**
 * Measures a stored picture or video.
 * @throws InputUnreadable
 */
export async function measureInput(
  storage: Storage,
  storageKey: string,
  medium: 'image' | 'video',
): Promise<InputMeasurements> {
  const sizeBytes = (await storage.size(storageKey)) ?? 0;
  if (sizeBytes === 0) throw new InputUnreadable('is empty or no longer exists');
  return medium === 'image'
    ? measurePicture(storage, storageKey, sizeBytes)
    : measureVideo(storage, storageKey);
}

async function measurePicture(
  storage: Storage,
  key: string,
  sizeBytes: number,
): Promise<InputMeasurements> {
  const last = Math.min(headBytesMax, sizeBytes) - 1;
  const object = await storage.open(key, { first: 0, last });
  if (!object) throw new InputUnreadable('no longer exists');
  const head = await buffer(object.stream);
  // The type is checked before decoding, because the image library also decodes SVG, TIFF and other
  // formats.
  if ((await detectMediaType(head))?.medium !== 'image') {
    throw new InputUnreadable(unsupportedTypeMessages.image);
  }
  try {
    const { autoOrient } = await sharp(head, { limitInputPixels: pixelsMax * 4 }).metadata();
    return { ...autoOrient, durationSeconds: null };
  } catch (cause) {
    throw new InputUnreadable('is not a readable image', { cause });
  }
}

async function measureVideo(storage: Storage, key: string): Promise<InputMeasurements> {
  const container = await readContainer(createObjectSource(storage, key));
  if (!container) throw new InputUnreadable('is not a readable video');
  if (!container.video) throw new InputUnreadable('has no video track');
  return { ...container.video, durationSeconds: container.durationSeconds };
}
