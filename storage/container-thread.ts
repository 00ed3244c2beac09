/**
 * Worker thread that container.ts starts; container.ts also defines its messages. Reads the
 * properties of one container at a time.
 */
import { parentPort } from 'node:worker_threads';
import { ALL_FORMATS, Input } from 'mediabunny';
import { assert } from '../domain/errors.ts';
import { createMediaSource } from './byte-source.ts';
import type { ContainerProperties, MessageFromThread, MessageToThread } from './container.ts';

assert(parentPort, 'container-thread.ts must run in a worker thread');
const parent = parentPort;
const send = (message: MessageFromThread): void => parent.postMessage(message, []);

/** Reads whose bytes have not arrived yet, keyed by read id. */
const pendingReads = new Map<number, PromiseWithResolvers<Uint8Array>>();
let readId = 0;

function read(start: number, end: number): Promise<Uint8Array> {
  const pending = Promise.withResolvers<Uint8Array>();
  readId += 1;
  pendingReads.set(readId, pending);
  send({ readId, start, end });
  return pending.promise;
}

async function readProperties(sizeBytes: number): Promise<ContainerProperties | null> {
  const size = (): Promise<number> => Promise.resolve(sizeBytes);
  const source = createMediaSource({ size, read, close: () => Promise.resolve() });
  const input = new Input({ source, formats: ALL_FORMATS });
  try {
    const video = await input.getPrimaryVideoTrack();
    const durationSeconds = await input.computeDuration();
    // Prices depend on the duration and the frame size, which can be NaN or 0 in an invalid file.
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

async function respond(sizeBytes: number): Promise<void> {
  const properties = await readProperties(sizeBytes);
  pendingReads.clear();
  send({ properties });
}

parent.on('message', (message: MessageToThread) => {
  if ('sizeBytes' in message) {
    void respond(message.sizeBytes);
    return;
  }
  const pending = pendingReads.get(message.readId);
  pendingReads.delete(message.readId);
  if (message.bytes) pending?.resolve(message.bytes);
  else pending?.reject(new Error('the byte range cannot be read'));
});
