/**
 * Measures a stored input before anything is reserved, for prices and limits that depend on it: the
 * head of a picture, the index of a video. Only the bytes that are needed are read.
 */
import { ALL_FORMATS, CustomSource, Input, type Source } from 'mediabunny';
import { buffer } from 'node:stream/consumers';
import sharp from 'sharp';
import type { InputFacts } from '../../studio/capability.ts';
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

type ReadPart = (first: number, last: number) => Promise<Buffer>;

/** The meter over the storage. */
export function createInputMeter({ storage }: { storage: Storage }): InputMeter {
  return {
    async measure(storageKey, medium) {
      try {
        const sizeBytes = (await storage.size(storageKey)) ?? 0;
        const read: ReadPart = async (first, last) => {
          const object = await storage.open(storageKey, { first, last });
          if (!object) throw new InputUnreadable('it is gone');
          return buffer(object.stream);
        };
        if (sizeBytes === 0) throw new InputUnreadable('it is empty or gone');
        return await (medium === 'image'
          ? measurePicture(await read(0, Math.min(headBytesMax, sizeBytes) - 1))
          : measureVideo(sizeBytes, read));
      } catch (error) {
        if (error instanceof InputUnreadable) throw error;
        throw new InputUnreadable(`it is not a readable ${medium}`, { cause: error });
      }
    },
  };
}

async function measurePicture(head: Buffer): Promise<InputFacts> {
  // Before a decoder sees it: the image library would read SVG, TIFF and more.
  if ((await sniff(head))?.medium !== 'image') {
    throw new InputUnreadable('it is no PNG, JPEG, WebP or GIF');
  }
  const { autoOrient } = await sharp(head, { limitInputPixels: pixelsMax * 4 }).metadata();
  return { ...autoOrient, durationSeconds: null };
}

async function measureVideo(sizeBytes: number, read: ReadPart): Promise<InputFacts> {
  const source: Source = new CustomSource({
    getSize: () => sizeBytes,
    prefetchProfile: 'network',
    handleUnhandledError: () => {},
    read: (start, end) => read(start, end - 1),
  });
  const input = new Input({ source, formats: ALL_FORMATS });
  try {
    const video = await input.getPrimaryVideoTrack();
    if (!video) throw new InputUnreadable('it has no video track');
    const durationSeconds = await input.computeDuration();
    return { width: video.displayWidth, height: video.displayHeight, durationSeconds };
  } finally {
    input.dispose();
  }
}
