import { createServer } from 'node:net';

/**
 * Asks the operating system for a TCP port that is free on the loopback interface now. Nothing
 * keeps it free until the caller listens: start the listener at once.
 */
export async function freePort(): Promise<number> {
  return await tryListen(0);
}

/** Whether a listener could be opened on this loopback port now. */
export async function isPortFree(port: number): Promise<boolean> {
  return await tryListen(port).then(
    () => true,
    () => false,
  );
}

function tryListen(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address();
      server.close(() => {
        if (typeof address === 'object' && address) resolve(address.port);
        else reject(new Error('the listener has no port'));
      });
    });
  });
}
