/** Stream of an upstream that is read more slowly than it arrives. */
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { expect, it, onTestFinished } from 'vitest';
import { openaiProtocol } from '../../chat/protocols/chat-protocols.ts';
import { readSteps } from '../../chat/stream-steps.ts';
import { during } from '../harness/during.ts';
import { startHttpServer } from '../harness/http-server.ts';

const chunk = (content: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;

const server = during(() =>
  startHttpServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const bytes = Buffer.from(chunk('öne'));
    const middle = bytes.indexOf('ö') + 1;
    response.write(bytes.subarray(0, middle));
    setTimeout(() => {
      response.write(bytes.subarray(middle));
      response.write(chunk('two'), () => response.socket?.destroy());
    }, 20);
  }),
);

it('the chunks before a failure are delivered, however their bytes arrive, then the failure', async () => {
  const pool = new Pool(server.url);
  onTestFinished(() => pool.destroy());
  const { body } = await pool.request({ method: 'GET', path: '/' });
  const received: string[] = [];
  const read = async (): Promise<void> => {
    const reader = openaiProtocol.createReader({ answers: 1, provider: 'openai' });
    for await (const steps of readSteps(body, reader)) {
      received.push(...steps.map(({ text }) => text));
      // The connection has broken by then.
      await sleep(200);
    }
  };
  await expect(read()).rejects.toMatchObject({ code: 'PROVIDER_ERROR' });
  expect(received).toEqual(['öne', 'two']);
});

it('characters that are split between two chunks stay whole; half a character and NUL do not arrive', async () => {
  const pieces = ['a\ud83d', '\ude00b', 'cut \ud83d', '\0x', 'end \ud83d'];
  const reader = openaiProtocol.createReader({ answers: 1, provider: 'openai' });
  const received: string[] = [];
  const packets = [...pieces.map(chunk), 'data: [DONE]\n\n'].map((text) => Buffer.from(text));
  for await (const steps of readSteps(Readable.from(packets), reader)) {
    received.push(...steps.map(({ text }) => text));
  }
  expect(received).toEqual(['a', '😀b', 'cut ', '\ufffdx', 'end ', '']);
});

it('a response is paused while its packets wait, and what follows its end is read and discarded', async () => {
  let sentBytes = 0;
  async function* send(): AsyncGenerator<Buffer> {
    for (let index = 0; index < 2000; index += 1) {
      const packet = Buffer.from(index === 1000 ? 'data: [DONE]\n\n' : chunk('x'.repeat(1000)));
      sentBytes += packet.length;
      yield packet;
    }
  }
  const body = Readable.from(send());
  const reader = openaiProtocol.createReader({ answers: 1, provider: 'openai' });
  let received = 0;
  for await (const steps of readSteps(body, reader)) {
    await sleep(1);
    const text = steps.map((step) => step.text).join('');
    if (text !== '') expect(sentBytes - received).toBeLessThan(400 * 1024);
    received += text.length;
  }
  expect(received).toBe(1000 * 1000);
  await finished(body);
  expect(sentBytes).toBeGreaterThan(2 * 1000 * 1000);
});
