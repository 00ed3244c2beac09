/**
 * Properties of video and sound files. Their containers are parsed in a thread with bounded memory
 * and time, because a malicious file can keep the parser busy for seconds and use gigabytes of
 * memory, while the event loop must serve other requests.
 */
import { Worker } from 'node:worker_threads';
import { GatewayError } from '../domain/errors.ts';
import { correlation } from '../platform/correlation.ts';
import { createFairLimiter } from '../platform/fair-limiter.ts';
import type { ByteSource } from './byte-source.ts';

/** Properties of a container. */
export interface ContainerFacts {
  /** MIME type without parameters. */
  mimeType: string;
  durationSeconds: number;
  /** Size of the video track in pixels; null if there is none. */
  video: { width: number; height: number } | null;
  hasAudio: boolean;
}

/**
 * Message to the thread: a file to read, or the bytes of a range; null: the range cannot be read.
 */
export type ToThread = { sizeBytes: number } | { readId: number; bytes: Uint8Array | null };
/**
 * Message of the thread: a range that it needs, or its result; null: the file is not a readable
 * container.
 */
export type ToParent =
  | { readId: number; start: number; end: number }
  | { facts: ContainerFacts | null };

/** Number of threads; organizations share them fairly. */
const threadsMax = 4;
/** Longest wait for a thread, in milliseconds. */
const waitMs = 60_000;
/** Longest time for one file, in milliseconds. A hundred megabytes of MP3 take four seconds. */
const timeoutMs = 30_000;
/** Largest range that is read at once: the index of a video of 200 MB has a few megabytes. */
const rangeBytesMax = 16 * 1024 * 1024;
const resourceLimits = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 32 };

const turns = createFairLimiter(threadsMax);
const idle: Worker[] = [];

/**
 * Reads the properties of a container, and closes the source; null if the file is not a readable
 * container, or its index is too large.
 * @throws GatewayError SERVICE_UNAVAILABLE if no thread is free for a long time, and errors of the
 * source
 */
export async function readContainer(source: ByteSource): Promise<ContainerFacts | null> {
  try {
    const leave = await turns.enter(correlation().organizationId ?? '', waitMs);
    if (!leave) {
      throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many files are being read.', {
        retryAfterSeconds: 2,
      });
    }
    try {
      return await readInThread(source, await source.size());
    } finally {
      leave();
    }
  } finally {
    await source.close();
  }
}

function startThread(): Worker {
  const thread = new Worker(new URL('container-thread.ts', import.meta.url), {
    resourceLimits,
    execArgv: [],
    // The parser writes messages about invalid files to the console, so they are dropped.
    stdout: true,
    stderr: true,
  });
  thread.stdout.resume();
  thread.stderr.resume();
  thread.unref();
  return thread;
}

function readInThread(source: ByteSource, sizeBytes: number): Promise<ContainerFacts | null> {
  const thread = idle.pop() ?? startThread();
  const post = (message: ToThread): void => thread.postMessage(message, []);
  const { promise, resolve, reject } = Promise.withResolvers<ContainerFacts | null>();

  /**
   * Ends the use of the thread. A thread that is still busy, or is out of memory, is terminated.
   */
  function leave(isIdle: boolean): void {
    clearTimeout(timer);
    thread.off('message', receive);
    if (isIdle) {
      thread.off('error', fail);
      idle.push(thread);
    } else void thread.terminate();
  }

  function fail(): void {
    leave(false);
    resolve(null);
  }

  function receive(message: ToParent): void {
    if ('facts' in message) {
      leave(true);
      resolve(message.facts);
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
        // The thread reports a file that is not readable.
        post({ readId, bytes: null });
      },
    );
  }

  const timer = setTimeout(fail, timeoutMs);
  thread.on('message', receive);
  thread.on('error', fail);
  post({ sizeBytes });
  return promise;
}
