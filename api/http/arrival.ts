/** Arrival of request bodies: a client that stops sending, or sends very slowly, gets 408. */
import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../domain/errors.ts';

/** Longest time between two pieces of a body, in milliseconds, and the time in which `bytesMin` must arrive. */
const windowMs = 5000;
/** Fewest bytes of each window, unless the body ends in it. */
const bytesMin = 4096;
/** Total time of a JSON body, in milliseconds. */
const bodyMs = 60_000;
/** Total time of files, in milliseconds: at the same least rate they may take longer. */
export const filesMs = 15 * 60_000;

/** Watch over the arrival of one request body. */
export interface Arrival {
  /** Counts bytes that have arrived. */
  count: (bytes: number) => void;
  /** Ends the watch. */
  end: () => void;
}

/** Runs a check after the process has read the bytes that arrived while its event loop was busy. */
function afterReads(check: () => void): void {
  setImmediate(() => setImmediate(check));
}

/** Starts to watch the arrival of a body; `onTooSlow` receives REQUEST_TIMEOUT if too few bytes arrive. */
export function watchArrival(onTooSlow: (error: GatewayError) => void, totalMs = bodyMs): Arrival {
  let windowBytes = 0;
  const timeout = (): void => onTooSlow(new GatewayError('REQUEST_TIMEOUT'));
  const check = (): void => {
    if (windowBytes < bytesMin) timeout();
    windowBytes = 0;
  };
  let pieces = 0;
  const silence = setTimeout(() => {
    const before = pieces;
    afterReads(() => pieces === before && timeout());
  }, windowMs);
  const window = setInterval(() => afterReads(check), windowMs);
  const total = setTimeout(timeout, totalMs);
  return {
    count(bytes) {
      windowBytes += bytes;
      pieces += 1;
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
 * Yields the body of a request as it arrives. The request stays open after an error, because its connection carries the
 * response.
 * @throws GatewayError REQUEST_TIMEOUT if the body arrives too slowly
 */
export async function* arrivingBytes(
  request: IncomingMessage,
  totalMs = bodyMs,
): AsyncGenerator<Buffer> {
  let rejectRead: ((error: GatewayError) => void) | undefined;
  const arrival = watchArrival((error) => rejectRead?.(error), totalMs);
  const pieces: AsyncIterator<Buffer, undefined> = request.iterator({ destroyOnReturn: false });
  /** Reads a piece. Each read has its own promise, because a race with a long-lived one would keep all pieces in memory. */
  const read = () =>
    new Promise<IteratorResult<Buffer, undefined>>((resolve, reject) => {
      rejectRead = reject;
      pieces.next().then(resolve, reject);
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
