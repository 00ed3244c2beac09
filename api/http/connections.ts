/** Connections of clients: one request at a time, and no client that stops reading. */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { RequestHandler } from '../app.ts';

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
  const waitingRequests = new WeakMap<Socket, (() => void)[]>();
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
