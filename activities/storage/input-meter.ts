/**
 * Measures an input before anything is reserved, for prices and limits that depend on it: the head of
 * a picture, the index of a video. Only the bytes that are needed are read: of own files from the
 * storage, of foreign ones through the guarded fetch.
 */
import { ALL_FORMATS, CustomSource, Input, ReadableStreamSource, type Source } from 'mediabunny';
import type { Readable } from 'node:stream';
import sharp from 'sharp';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import type { InputFacts } from '../../studio/capability.ts';
import { referencedKey } from '../inputs.ts';
import { sniff } from './media-types.ts';
import { pixelsMax } from './probe.ts';
import type { Storage } from './storage.ts';

/** An input that cannot be read, or is not what it should be. The message is for the caller. */
export class InputUnreadable extends Error {
  override readonly name = 'InputUnreadable';
}

/** Measures inputs. */
export interface InputMeter {
  /**
   * `location` is a URL, or a reference to the storage (activities/inputs.ts).
   * @throws InputUnreadable
   */
  measure: (location: string, medium: 'image' | 'video') => Promise<InputFacts>;
}

/** Pictures name their size within this many bytes, metadata before it included. */
const headBytesMax = 2 * 1024 * 1024;
/** Bytes that an input may have (the caps of uploads). */
const bytesMax = { image: 25 * 1024 * 1024, video: 200 * 1024 * 1024 };
const timeoutMs = 20_000;
/** Held of a video whose server does not answer with ranges: its index must come this early. */
const unrangedBytesMax = 32 * 1024 * 1024;
const chunkBytes = 256 * 1024;

interface Part {
  body: Readable;
  /** Size of the whole file; null when the answer is the whole file, not the part asked for. */
  rangeOfBytes: number | null;
}
type ReadPart = (first: number, last: number) => Promise<Part>;

/** The meter over the storage and the guarded fetch. */
export function createInputMeter(deps: { outbound: Outbound; storage: Storage }): InputMeter {
  return {
    async measure(location, medium) {
      const signal = AbortSignal.timeout(timeoutMs);
      const key = referencedKey(location);
      const read: ReadPart =
        key === null
          ? (first, last) =>
              deps.outbound.fetch(location, {
                bytesMax: bytesMax[medium],
                timeoutMs,
                signal,
                range: { first, last },
              })
          : (first, last) => readStored(deps.storage, key, { first, last });
      try {
        return await (medium === 'image' ? measurePicture(read) : measureVideo(read));
      } catch (error) {
        throw unreadable(error, medium, signal);
      }
    },
  };
}

async function readStored(
  storage: Storage,
  key: string,
  range: { first: number; last: number },
): Promise<Part> {
  const sizeBytes = await storage.size(key);
  const last = Math.min(range.last, (sizeBytes ?? 0) - 1);
  const object = last >= range.first ? await storage.open(key, { ...range, last }) : null;
  if (sizeBytes === null || !object) throw new InputUnreadable('it is empty or gone');
  return { body: object.stream, rangeOfBytes: sizeBytes };
}

function unreadable(error: unknown, medium: string, signal: AbortSignal): InputUnreadable {
  if (error instanceof InputUnreadable) return error;
  if (error instanceof OutboundError) return new InputUnreadable(error.message);
  return new InputUnreadable(
    signal.aborted ? 'it takes too long to read' : `it is not a readable ${medium}`,
  );
}

async function measurePicture(read: ReadPart): Promise<InputFacts> {
  const head = await readAll((await read(0, headBytesMax - 1)).body, headBytesMax);
  // Before a decoder sees it: the image library would read SVG, TIFF and more.
  if (sniff(head)?.medium !== 'image') throw new InputUnreadable('it is no PNG, JPEG, WebP or GIF');
  const { autoOrient } = await sharp(head, { limitInputPixels: pixelsMax * 4 }).metadata();
  return { ...autoOrient, durationSeconds: null };
}

async function measureVideo(read: ReadPart): Promise<InputFacts> {
  const head = await read(0, chunkBytes - 1);
  const input = new Input({ source: await sourceOf(head, read), formats: ALL_FORMATS });
  try {
    const video = await input.getPrimaryVideoTrack();
    if (!video) throw new InputUnreadable('it has no video track');
    const durationSeconds = await input.computeDuration();
    return { width: video.displayWidth, height: video.displayHeight, durationSeconds };
  } finally {
    input.dispose();
    head.body.destroy();
  }
}

/** Reads by ranges where they are known, else from the beginning on. */
async function sourceOf(head: Part, read: ReadPart): Promise<Source> {
  const ignore = { handleUnhandledError: () => {} };
  if (head.rangeOfBytes === null) {
    const stream = ReadableStream.from<Uint8Array>(head.body);
    return new ReadableStreamSource(stream, { maxCacheSize: unrangedBytesMax, ...ignore });
  }
  const sizeBytes = head.rangeOfBytes;
  if (sizeBytes > bytesMax.video) {
    throw new InputUnreadable(`it has more than ${bytesMax.video} bytes`);
  }
  const first = await readAll(head.body, chunkBytes);
  return new CustomSource({
    getSize: () => sizeBytes,
    prefetchProfile: 'none',
    ...ignore,
    read: async (start, end) => {
      if (end <= first.length) return first.subarray(start, end);
      const { body, rangeOfBytes } = await read(start, end - 1);
      if (rangeOfBytes === sizeBytes) return readAll(body, end - start);
      body.destroy();
      throw new InputUnreadable('it changes while it is read');
    },
  });
}

/** The bytes of a stream, no more than these. */
async function readAll(body: Readable, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  const source: AsyncIterable<Buffer> = body;
  for await (const chunk of source) {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes >= limitBytes) break;
  }
  return Buffer.concat(chunks);
}
