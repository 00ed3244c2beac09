import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Range of ports below the ranges for outgoing connections (Linux 32,768–60,999, macOS
 * 49,152–65,535).
 */
const portMin = 15_000;
const portMax = 32_000;

/**
 * Chooses a TCP port that is free on the loopback interface now. Another listener may still take it
 * before the caller listens; an outgoing connection cannot.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(portMin, portMax);
    if (await isPortFree(port)) return port;
  }
}

/** Checks whether a listener can be opened on this loopback port now. */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      server.close(() => resolve(true));
    });
  });
}
