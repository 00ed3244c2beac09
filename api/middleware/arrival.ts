/** Arrival of request bodies: a client that stops sending, or sends very slowly, gets 408. */
import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../domain/errors.ts';

/** Time in which `bytesMin` must arrive, and total time of a body, in milliseconds. */
interface ArrivalLimits {
  windowMs: number;
  totalMs: number;
}

/** Fewest bytes of each window, unless the body ends in it. */
const bytesMin = 4096;
const bodyLimits: ArrivalLimits = { windowMs: 5000, totalMs: 60_000 };
/** Files may take longer than JSON bodies, at the same least rate. */
export const fileLimits: ArrivalLimits = { windowMs: 5000, totalMs: 15 * 60_000 };

/** Watch over the arrival of one body. */
export interface Arrival {
  /** Counts bytes that have arrived. */
  count: (bytes: number) => void;
  /** Ends the watch. */
  end: () => void;
}

/** Starts to watch the arrival of a body; `onTooSlow` receives REQUEST_TIMEOUT if too few bytes arrive. */
export function watchArrival(
  onTooSlow: (error: GatewayError) => void,
  { windowMs, totalMs } = bodyLimits,
): Arrival {
  let windowBytes = 0;
  const timeout = (): void => onTooSlow(new GatewayError('REQUEST_TIMEOUT'));
  const check = (): void => {
    if (windowBytes < bytesMin) timeout();
    windowBytes = 0;
  };
  // Bytes that arrived while the event loop was busy are read before the check.
  const window = setInterval(() => setImmediate(() => setImmediate(check)), windowMs);
  const total = setTimeout(timeout, totalMs);
  return {
    count(bytes) {
      windowBytes += bytes;
    },
    end() {
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
  limits = bodyLimits,
): AsyncGenerator<Buffer> {
  let rejectRead: ((error: GatewayError) => void) | undefined;
  const arrival = watchArrival((error) => rejectRead?.(error), limits);
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
