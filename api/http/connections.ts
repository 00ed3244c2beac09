/** Connections of clients: one request at a time, and no client that stops reading. */
import type { Server, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { RequestHandler } from '../app.ts';
import { GatewayError } from '../../domain/errors.ts';

/**
 * Maximum number of requests that wait for the first one of their connection. HTTP clients do not
 * pipeline requests; a connection with more is destroyed.
 */
const pipelinedMax = 16;
/**
 * Interval at which Node.js compares the unsent bytes of a socket. After an interval without
 * progress, i.e. 7.5 to 15 s after the last byte, the socket is destroyed.
 */
const progressCheckMs = 7500;

/**
 * Handles one request of a connection at a time: the next one starts when the response has closed.
 * A client therefore holds at most one response per connection. Destroys the connection of a client
 * that takes no byte of its response for 15 s.
 */
export function handleInOrder(getHandler: () => RequestHandler): RequestHandler {
  const waitingRequests = new Map<Socket, (() => void)[]>();
  return (request, response) => {
    const { socket } = request;
    const waiting = waitingRequests.get(socket);
    function run(): void {
      response.once('close', () => {
        const next = waitingRequests.get(socket)?.shift();
        if (next && !socket.destroyed) next();
        else waitingRequests.delete(socket);
      });
      response.setTimeout(progressCheckMs, () => {
        if (socket.writableLength > 0) socket.destroy();
      });
      getHandler()(request, response);
    }
    if (!waiting) {
      waitingRequests.set(socket, []);
      run();
    } else if (waiting.length < pipelinedMax) waiting.push(run);
    else socket.destroy();
  };
}

/** Maximum time for which `closeServer` waits for open requests, in milliseconds. */
const closeTimeoutMs = 15_000;

/** Stops accepting connections, and terminates those that are still open after a timeout. */
export async function closeServer(server: Server): Promise<void> {
  const closeTimer = setTimeout(() => server.closeAllConnections(), closeTimeoutMs);
  await new Promise((resolve) => server.close(resolve));
  clearTimeout(closeTimer);
}

/**
 * Interval in which at least `windowBytesMin` bytes of a body must arrive, in milliseconds. It is
 * also the maximum time between two chunks.
 */
const windowMs = 5000;
/** Minimum number of bytes that must arrive in each interval of `windowMs` except the last. */
const windowBytesMin = 4096;
/** Maximum time for a whole JSON body to arrive, in milliseconds. */
const jsonTimeoutMs = 60_000;
/** Maximum time for a whole form with files to arrive, in milliseconds. */
export const formTimeoutMs = 15 * 60_000;

/** Timers that check whether one request body arrives fast enough. */
export interface BodyTimers {
  addBytes: (count: number) => void;
  stop: () => void;
}

/**
 * Runs a check after the next reads from sockets, so that bytes that arrived while the event loop
 * was busy are counted first.
 */
function runAfterReads(check: () => void): void {
  setImmediate(() => setImmediate(check));
}

/**
 * Starts the timers for a request body. Calls `onTooSlow` with REQUEST_TIMEOUT if the body arrives
 * too slowly, or takes longer than `totalMs` milliseconds in total.
 */
export function startBodyTimers(
  onTooSlow: (error: GatewayError) => void,
  totalMs = jsonTimeoutMs,
): BodyTimers {
  let windowBytes = 0;
  const reportTimeout = (): void => onTooSlow(new GatewayError('REQUEST_TIMEOUT'));
  const checkWindow = (): void => {
    if (windowBytes < windowBytesMin) reportTimeout();
    windowBytes = 0;
  };
  let chunkCount = 0;
  const idleTimer = setTimeout(() => {
    const countBefore = chunkCount;
    runAfterReads(() => chunkCount === countBefore && reportTimeout());
  }, windowMs);
  const windowTimer = setInterval(() => runAfterReads(checkWindow), windowMs);
  const totalTimer = setTimeout(reportTimeout, totalMs);
  return {
    addBytes(count) {
      windowBytes += count;
      chunkCount += 1;
      idleTimer.refresh();
    },
    stop() {
      clearTimeout(idleTimer);
      clearInterval(windowTimer);
      clearTimeout(totalTimer);
    },
  };
}

/**
 * Yields the chunks of a request body as they arrive, for at most `totalMs` milliseconds. An error
 * does not close the request, because the response uses the same connection.
 * @throws GatewayError REQUEST_TIMEOUT if the body arrives too slowly
 */
export async function* readChunks(
  request: IncomingMessage,
  totalMs = jsonTimeoutMs,
): AsyncGenerator<Buffer> {
  let rejectRead: ((error: GatewayError) => void) | undefined;
  const timers = startBodyTimers((error) => rejectRead?.(error), totalMs);
  const chunks: AsyncIterator<Buffer, undefined> = request.iterator({ destroyOnReturn: false });
  /**
   * Reads a chunk. Each read has its own promise, because one shared promise would keep all chunks
   * in memory.
   */
  const read = () =>
    new Promise<IteratorResult<Buffer, undefined>>((resolve, reject) => {
      rejectRead = reject;
      chunks.next().then(resolve, reject);
    });
  try {
    for (let result = await read(); !result.done; result = await read()) {
      timers.addBytes(result.value.length);
      yield result.value;
    }
  } finally {
    timers.stop();
    // Removes the listeners, so that the rest of the body can be discarded. A read may be pending.
    void chunks.return?.();
  }
}

/** Maximum number of bytes of a rejected body that are discarded. */
const discardedBytesMax = 256 * 1024 * 1024;
/** Maximum time for which a rejected body is discarded, in milliseconds. */
const discardTimeoutMs = 30_000;

/** Returns whether a part of the body of a request has not arrived. */
export function isBodyArriving({ headers, complete, destroyed }: IncomingMessage): boolean {
  const hasBody =
    Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined;
  return hasBody && !complete && !destroyed;
}

/**
 * Yields the response to a request whose body was rejected, and ends when the rest of the body has
 * been discarded. A connection that is closed earlier shows many clients a network error instead of
 * the response, because they are still sending. Closes it when the limits are exceeded.
 */
export async function* respondBeforeBodyEnds(
  request: IncomingMessage,
  response: string,
): AsyncGenerator<string> {
  yield response;
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const timers = startBodyTimers(() => end(), discardTimeoutMs);
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    timers.addBytes(chunk.length);
    bytes += chunk.length;
    if (bytes > discardedBytesMax) end();
  });
  for (const event of ['end', 'close', 'error']) request.once(event, () => end());
  request.resume();
  await ended;
  timers.stop();
  if (!request.complete) request.destroy();
}
