/** Timeouts of request bodies: a client that stops sending or is too slow receives 408. */
import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../domain/errors.ts';

/** Longest time between chunks, and window in which `bytesMin` must arrive, in ms. */
const windowMs = 5000;
/** Least number of bytes that must arrive in each window, unless the body ends in the window. */
const bytesMin = 4096;
/** Total time of a JSON body, in milliseconds. */
const bodyMs = 60_000;
/** Total time of a form with files, in milliseconds. */
export const filesMs = 15 * 60_000;

/** Timers for the arrival of one body. */
export interface Arrival {
  count: (bytes: number) => void;
  end: () => void;
}

/** Runs a check after the process has read the bytes that arrived while its event loop was busy. */
function afterReads(check: () => void): void {
  setImmediate(() => setImmediate(check));
}

/**
 * Starts the timers for a body, which may arrive for `totalMs` milliseconds; `onTooSlow` receives
 * REQUEST_TIMEOUT if the body arrives too slowly.
 */
export function watchArrival(onTooSlow: (error: GatewayError) => void, totalMs = bodyMs): Arrival {
  let windowBytes = 0;
  const timeout = (): void => onTooSlow(new GatewayError('REQUEST_TIMEOUT'));
  const check = (): void => {
    if (windowBytes < bytesMin) timeout();
    windowBytes = 0;
  };
  let chunks = 0;
  const silence = setTimeout(() => {
    const before = chunks;
    afterReads(() => chunks === before && timeout());
  }, windowMs);
  const window = setInterval(() => afterReads(check), windowMs);
  const total = setTimeout(timeout, totalMs);
  return {
    count(bytes) {
      windowBytes += bytes;
      chunks += 1;
      silence.refresh();
    },
    end() {
      clearTimeout(silence);
      clearInterval(window);
      clearTimeout(total);
    },
  };
}

/**
 * Yields the chunks of a request body as they arrive, for at most `totalMs` milliseconds. The
 * request stays open after an error, because the response is sent on the same connection.
 * @throws GatewayError REQUEST_TIMEOUT if the body arrives too slowly
 */
export async function* arrivingBytes(
  request: IncomingMessage,
  totalMs = bodyMs,
): AsyncGenerator<Buffer> {
  let rejectRead: ((error: GatewayError) => void) | undefined;
  const arrival = watchArrival((error) => rejectRead?.(error), totalMs);
  const chunks: AsyncIterator<Buffer, undefined> = request.iterator({ destroyOnReturn: false });
  /** Reads a chunk. Each read has its own promise: one long-lived promise would keep all chunks. */
  const read = () =>
    new Promise<IteratorResult<Buffer, undefined>>((resolve, reject) => {
      rejectRead = reject;
      chunks.next().then(resolve, reject);
    });
  try {
    for (let result = await read(); !result.done; result = await read()) {
      arrival.count(result.value.length);
      yield result.value;
    }
  } finally {
    arrival.end();
  }
}
