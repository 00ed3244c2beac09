import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Ports below the ranges that systems use for outgoing connections (Linux 32,768–60,999, macOS
 * 49,152–65,535).
 */
const portMin = 15_000;
const portMax = 32_000;

/**
 * Chooses a TCP port that is currently free on the loopback interface. Another server may take it
 * before the caller listens, but an outgoing connection cannot.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(portMin, portMax);
    if (await isPortFree(port)) return port;
  }
}

/** Returns whether a server can currently listen on a loopback port. */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      server.close(() => resolve(true));
    });
  });
}
