/**
 * Measures a stored input before anything is reserved, for prices and limits that depend on it: the
 * head of a picture, the index of a video. Only the bytes that are needed are read.
 */
import { buffer } from 'node:stream/consumers';
import sharp from 'sharp';
import type { InputFacts } from '../../studio/capability.ts';
import { readContainer, storedSource } from '../storage/media-container.ts';
import { sniff } from '../storage/media-types.ts';
import { pixelsMax } from '../storage/probe.ts';
import type { Storage } from '../storage/storage.ts';

/** An input that cannot be read, or is not what it should be. The message is for the caller. */
export class InputUnreadable extends Error {
  override readonly name = 'InputUnreadable';
}

/** Measures inputs. */
export interface InputMeter {
  /** @throws InputUnreadable */
  measure: (storageKey: string, medium: 'image' | 'video') => Promise<InputFacts>;
}

/** Pictures name their size within this many bytes, metadata before it included. */
const headBytesMax = 2 * 1024 * 1024;

/** The meter over the storage. */
export function createInputMeter({ storage }: { storage: Storage }): InputMeter {
  return {
    async measure(storageKey, medium) {
      const sizeBytes = (await storage.size(storageKey)) ?? 0;
      if (sizeBytes === 0) throw new InputUnreadable('it is empty or gone');
      return medium === 'image'
        ? measurePicture(storage, storageKey, sizeBytes)
        : measureVideo(storage, storageKey);
    },
  };
}

async function measurePicture(
  storage: Storage,
  key: string,
  sizeBytes: number,
): Promise<InputFacts> {
  const last = Math.min(headBytesMax, sizeBytes) - 1;
  const object = await storage.open(key, { first: 0, last });
  if (!object) throw new InputUnreadable('it is gone');
  const head = await buffer(object.stream);
  // Before a decoder sees it: the image library would read SVG, TIFF and more.
  if ((await sniff(head))?.medium !== 'image') {
    throw new InputUnreadable('it is no PNG, JPEG, WebP or GIF');
  }
  try {
    const { autoOrient } = await sharp(head, { limitInputPixels: pixelsMax * 4 }).metadata();
    return { ...autoOrient, durationSeconds: null };
  } catch (cause) {
    throw new InputUnreadable('it is not a readable image', { cause });
  }
}

async function measureVideo(storage: Storage, key: string): Promise<InputFacts> {
  const found = await readContainer(storedSource(storage, key));
  if (!found) throw new InputUnreadable('it is not a readable video');
  if (!found.video) throw new InputUnreadable('it has no video track');
  return { ...found.video, durationSeconds: found.durationSeconds };
}
