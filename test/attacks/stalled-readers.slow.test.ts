/** Clients that do not read their response: the gateway closes the connection, so that nothing stays in memory. */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { useGateway } from '../harness/gateway.ts';

const megabyte = 1024 * 1024;
const gateway = useGateway();

it('a client that reads nothing of a large file for a minute is disconnected', async () => {
  const { storage } = gateway.api.services;
  const path = await storage.spoolPath();
  await writeFile(path, Buffer.alloc(40 * megabyte));
  const key = `${gateway.caller.organizationId}/${newId('upload')}.mp4`;
  await storage.put(key, path);
  const url = new URL(await storage.urlOf(key, 600_000));
  const socket = connect(Number(url.port), url.hostname);
  socket.on('error', () => {});
  socket.write(
    `GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\nConnection: close\r\n\r\n`,
  );
  await once(socket, 'readable');
  await sleep(63_000);
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => (bytes += chunk.length));
  await once(socket, 'close');
  // Only the contents of the connection's buffers arrive.
  expect(bytes).toBeLessThan(20 * megabyte);
});
