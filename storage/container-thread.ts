/**
 * Thread of container.ts: reads the properties of one container after the other. Its messages are
 * defined there.
 */
import { parentPort } from 'node:worker_threads';
import { ALL_FORMATS, Input } from 'mediabunny';
import { assert } from '../domain/errors.ts';
import { mediaSource } from './byte-source.ts';
import type { ContainerFacts, ToParent, ToThread } from './container.ts';

assert(parentPort, 'this module runs in a thread');
const parent = parentPort;
const send = (message: ToParent): void => parent.postMessage(message, []);

/** Reads in progress, by their ids. */
const reads = new Map<number, PromiseWithResolvers<Uint8Array>>();
let readId = 0;

function read(start: number, end: number): Promise<Uint8Array> {
  const pending = Promise.withResolvers<Uint8Array>();
  readId += 1;
  reads.set(readId, pending);
  send({ readId, start, end });
  return pending.promise;
}

async function factsOf(sizeBytes: number): Promise<ContainerFacts | null> {
  const size = (): Promise<number> => Promise.resolve(sizeBytes);
  const source = mediaSource({ size, read, close: () => Promise.resolve() });
  const input = new Input({ source, formats: ALL_FORMATS });
  try {
    const video = await input.getPrimaryVideoTrack();
    const durationSeconds = await input.computeDuration();
    // Prices depend on these numbers, and an invalid file can make them NaN or 0.
    if (!Number.isFinite(durationSeconds)) return null;
    if (video && !(video.displayWidth > 0 && video.displayHeight > 0)) return null;
    return {
      mimeType: (await input.getMimeType()).split(';')[0] ?? '',
      durationSeconds,
      video: video && { width: video.displayWidth, height: video.displayHeight },
      hasAudio: (await input.getPrimaryAudioTrack()) !== null,
    };
  } catch {
    return null;
  } finally {
    input.dispose();
  }
}

async function answer(sizeBytes: number): Promise<void> {
  const facts = await factsOf(sizeBytes);
  reads.clear();
  send({ facts });
}

parent.on('message', (message: ToThread) => {
  if ('sizeBytes' in message) {
    void answer(message.sizeBytes);
    return;
  }
  const pending = reads.get(message.readId);
  reads.delete(message.readId);
  if (message.bytes) pending?.resolve(message.bytes);
  else pending?.reject(new Error('the range cannot be read'));
});
