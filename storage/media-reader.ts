/**
 * Recognizes and measures media files. A worker thread with bounded memory and time reads them,
 * because a malicious file can occupy a parser for seconds and use gigabytes of memory, while the
 * event loop must serve other requests. Nothing else in the API parses a caller's file.
 */
import { Worker } from 'node:worker_threads';
import { GatewayError } from '../domain/errors.ts';
import { correlation } from '../platform/logger.ts';
import { createShares } from '../platform/shares.ts';
import type { ByteSource } from './byte-source.ts';
import type { MediaType } from './media-types.ts';
import type { PictureHeader } from './picture-header.ts';

/** Properties of a file, as read from its bytes. */
export type MediaFacts =
  | ({ kind: 'picture'; type: MediaType } & PictureHeader)
  | {
      kind: 'recording';
      type: MediaType;
      /** Upright stored pixels and length of the picture track; null if there is none. */
      video: { width: number; height: number; durationSeconds: number } | null;
      /** Length of the sound; null if there is none. */
      audio: { durationSeconds: number } | null;
    }
  /** File that is not accepted. `found` completes the sentence "the file is …". */
  | { kind: 'refused'; found: string };

/**
 * Message to the worker thread. `sizeBytes`: start to read a file of this size. `bytes`: the bytes
 * that the thread requested; null if they cannot be read.
 */
export type MessageToThread = { sizeBytes: number } | { readId: number; bytes: Uint8Array | null };
/**
 * Message from the worker thread. `start` and `end`: a byte range that the thread needs.
 * `facts`: the result.
 */
export type MessageFromThread =
  | { readId: number; start: number; end: number }
  | { facts: MediaFacts };

/** Maximum number of worker threads; organizations share them fairly. */
const threadsMax = 4;
/** Maximum wait for a free worker thread, in milliseconds. */
const slotWaitMs = 60_000;
/** Maximum time to read one file, in milliseconds. */
export const timeoutMs = 30_000;
/** Maximum CPU time to read one file, in milliseconds, and the interval of its checks. */
const cpuMsMax = 1000;
const cpuCheckMs = 200;
/** Maximum number of bytes of one read. The index of a 200 MB video, read at once, is a few MB. */
const rangeBytesMax = 16 * 1024 * 1024;
const resourceLimits = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 32 };

const threadSlots = createShares(threadsMax);
const idleThreads: Worker[] = [];

/**
 * Reads the properties of a file and closes the source.
 * @throws GatewayError SERVICE_UNAVAILABLE if no thread becomes free in time; also rethrows the
 * errors of the source
 */
export async function readMedia(source: ByteSource): Promise<MediaFacts> {
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
  const thread = new Worker(new URL('media-thread.ts', import.meta.url), {
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

function readInThread(source: ByteSource, sizeBytes: number): Promise<MediaFacts> {
  const thread = idleThreads.pop() ?? startThread();
  const post = (message: MessageToThread): void => thread.postMessage(message, []);
  const { promise, resolve, reject } = Promise.withResolvers<MediaFacts>();
  let isReading = true;
  let cpuAtStart: number | null = null;

  /**
   * Returns an idle thread to the pool. Terminates a thread that is still busy or out of memory.
   */
  function releaseThread(isIdle: boolean): void {
    isReading = false;
    clearTimeout(timer);
    clearInterval(cpuTimer);
    thread.off('message', handleMessage);
    if (isIdle) {
      thread.off('error', handleFailure);
      idleThreads.push(thread);
    } else void thread.terminate();
  }

  function handleFailure(): void {
    releaseThread(false);
    resolve({ kind: 'refused', found: 'a file that takes too long to read' });
  }

  /** Terminates a thread that used too much CPU for the file. The first check starts the count. */
  async function checkCpu(): Promise<void> {
    const usage = await thread.cpuUsage().catch(() => null);
    if (!usage || !isReading) return;
    const cpuMs = (usage.user + usage.system) / 1000;
    cpuAtStart ??= cpuMs;
    if (cpuMs - cpuAtStart > cpuMsMax) handleFailure();
  }

  function handleMessage(message: MessageFromThread): void {
    if ('facts' in message) {
      releaseThread(true);
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
        // Without the bytes, the thread stops reading and reports that the file is unreadable.
        post({ readId, bytes: null });
      },
    );
  }

  const timer = setTimeout(handleFailure, timeoutMs);
  const cpuTimer = setInterval(() => void checkCpu(), cpuCheckMs);
  thread.on('message', handleMessage);
  thread.on('error', handleFailure);
  post({ sizeBytes });
  return promise;
}
