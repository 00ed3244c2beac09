/** What a container of film or sound holds, read range by range: memory stays flat, and nothing is decoded. */
import { buffer } from 'node:stream/consumers';
import { ALL_FORMATS, CustomSource, Input, type Source } from 'mediabunny';
import type { Storage } from './storage.ts';

/** What a container holds. */
export interface ContainerFacts {
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
