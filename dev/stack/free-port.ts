import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

/**
 * Ports below the ranges that systems use for outgoing connections (Linux 32,768–60,999, macOS
 * 49,152–65,535).
 */
const portMin = 15_000;
const portMax = 32_000;

/**
 * Chooses a TCP port that is currently free on the loopback interface. Until this process ends, no
 * other call of this function returns it, in any process, so that the caller has time to listen.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(portMin, portMax);
    if ((await claimPort(port)) && (await isPortFree(port))) return port;
  }
}

/**
 * Claims a port for this process by its UDP port of the same number, which the system releases when
 * the process ends. Returns false if another call has claimed it.
 */
function claimPort(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const claim = createSocket('udp4').unref();
    claim.once('error', () => {
      claim.close();
      resolve(false);
    });
    claim.bind({ port, address: '127.0.0.1', exclusive: true }, () => resolve(true));
  });
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
