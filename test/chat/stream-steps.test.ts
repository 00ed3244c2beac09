/** Stream of an upstream that is read more slowly than it arrives. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openaiProtocol } from '../../chat/protocols/openai-protocol.ts';
import { readSteps } from '../../chat/stream-steps.ts';

const chunk = (content: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;

let server: Server;
let pool: Pool;
beforeAll(async () => {
  server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(chunk('one'));
    setTimeout(() => response.write(chunk('two'), () => response.socket?.destroy()), 20);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  pool = new Pool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
afterAll(async () => {
  await pool.destroy();
  server.close();
});

it('the chunks before a failure are delivered, then the failure', async () => {
  const { body } = await pool.request({ method: 'GET', path: '/' });
  const received: string[] = [];
  const read = async (): Promise<void> => {
    for await (const steps of readSteps(body, openaiProtocol.createReader(1))) {
      received.push(...steps.map(({ text }) => text));
      // The connection has broken by then.
      await sleep(200);
    }
  };
  await expect(read()).rejects.toMatchObject({ code: 'PROVIDER_ERROR' });
  expect(received).toEqual(['one', 'two']);
});
