/**
 * Reads the properties of video and audio files. A worker thread with bounded memory and time
 * parses the containers, because a malicious file can occupy the parser for seconds and use
 * gigabytes of memory, while the event loop must serve other requests.
 */
import { Worker } from 'node:worker_threads';
import { GatewayError } from '../domain/errors.ts';
import { correlation } from '../platform/correlation.ts';
import { createFairLimiter } from '../platform/fair-limiter.ts';
import type { ByteSource } from './byte-source.ts';

/** Properties of a video or audio file, as read from its container. */
export interface ContainerProperties {
  /** MIME type without parameters. */
  mimeType: string;
  durationSeconds: number;
  /** Frame size of the video track in pixels; null if there is no video track. */
  video: { width: number; height: number } | null;
  hasAudio: boolean;
}

/**
 * Message to the worker thread. `sizeBytes`: start to read a file of this size. `bytes`: the bytes
 * that the thread requested; null if they cannot be read.
 */
export type MessageToThread = { sizeBytes: number } | { readId: number; bytes: Uint8Array | null };
/**
 * Message from the worker thread. `start` and `end`: a byte range that the thread needs.
 * `properties`: the result; null if the file is not a readable container.
 */
export type MessageFromThread =
  | { readId: number; start: number; end: number }
  | { properties: ContainerProperties | null };

/** Maximum number of worker threads; organizations share them fairly. */
const threadsMax = 4;
/** Maximum wait for a free worker thread, in milliseconds. */
const slotWaitMs = 60_000;
/** Maximum time to read one file, in milliseconds. A hundred megabytes of MP3 take four seconds. */
const timeoutMs = 30_000;
/** Maximum number of bytes of one read. The index of a 200 MB video, read at once, is a few MB. */
const rangeBytesMax = 16 * 1024 * 1024;
const resourceLimits = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 32 };

const threadSlots = createFairLimiter(threadsMax);
const idleThreads: Worker[] = [];

/**
 * Reads the properties of a container and closes the source. Returns null if the file is not a
 * readable container, or its index is too large.
 * @throws GatewayError SERVICE_UNAVAILABLE if no thread becomes free in time; also rethrows the
 * errors of the source
 */
export async function readContainer(source: ByteSource): Promise<ContainerProperties | null> {
  try {
    const releaseSlot = await threadSlots.enter(correlation().organizationId ?? '', slotWaitMs);
    if (!releaseSlot) {
      throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many files are being read.', {
        retryAfterSeconds: 2,
      });
    }
    try {
      return await readInThread(source, await source.size());
    } finally {
      releaseSlot();
    }
  } finally {
    await source.close();
  }
}

function startThread(): Worker {
  const thread = new Worker(new URL('container-thread.ts', import.meta.url), {
    resourceLimits,
    execArgv: [],
    // The parser prints messages about invalid files; the output is discarded.
    stdout: true,
    stderr: true,
  });
  thread.stdout.resume();
  thread.stderr.resume();
  thread.unref();
  return thread;
}

function readInThread(source: ByteSource, sizeBytes: number): Promise<ContainerProperties | null> {
  const thread = idleThreads.pop() ?? startThread();
  const post = (message: MessageToThread): void => thread.postMessage(message, []);
  const { promise, resolve, reject } = Promise.withResolvers<ContainerProperties | null>();

  /**
   * Returns an idle thread to the pool. Terminates a thread that is still busy or out of memory.
   */
  function releaseThread(isIdle: boolean): void {
    clearTimeout(timer);
    thread.off('message', handleMessage);
    if (isIdle) {
      thread.off('error', handleFailure);
      idleThreads.push(thread);
    } else void thread.terminate();
  }

  function handleFailure(): void {
    releaseThread(false);
    resolve(null);
  }

  function handleMessage(message: MessageFromThread): void {
    if ('properties' in message) {
      releaseThread(true);
      resolve(message.properties);
      return;
    }
    const { readId, start, end } = message;
    if (end - start > rangeBytesMax) {
      post({ readId, bytes: null });
      return;
    }
    source.read(start, end).then(
      (bytes) => post({ readId, bytes }),
      (error: unknown) => {
        reject(error);
        // Without the bytes, the thread stops reading and reports that the file is unreadable.
        post({ readId, bytes: null });
      },
    );
  }

  const timer = setTimeout(handleFailure, timeoutMs);
  thread.on('message', handleMessage);
  thread.on('error', handleFailure);
  post({ sizeBytes });
  return promise;
}
