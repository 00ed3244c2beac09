/** The example receiver in docs/webhooks.md, run unchanged. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { untilHolds } from '../harness/until.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const gateway = useGateway({ settled: 'last' });
let directory: string;
beforeAll(async () => {
  // Where it finds the packages of this project.
  await mkdir(`${root}.cache`, { recursive: true });
  directory = await mkdtemp(`${root}.cache/receiver-`);
  return () => rm(directory, { recursive: true, force: true });
});

it("the documented receiver accepts the gateway's webhooks, and rejects everything else", async () => {
  const text = await readFile(`${root}docs/webhooks.md`, 'utf8');
  const [, snippet = ''] = /```js\n(.+?)```/s.exec(text) ?? [];
  expect(snippet).toContain('webhook.verify');
  await writeFile(`${directory}/receiver.mjs`, snippet);
  // The snippet listens where the gateway may send webhooks to.
  await gateway.receiver.down();
  const { port } = new URL(gateway.receiver.origin);
  const { body } = await gateway.call<{ secret: string }>('/api/v1/webhooks/secret');
  const child = fork(`${directory}/receiver.mjs`, {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { PATH: process.env['PATH'], WEBHOOK_SECRET: body.secret, PORT: port },
  });
  let output = '';
  child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const webhookUrl = `http://127.0.0.1:${port}/`;
  await untilHolds(() => fetch(webhookUrl));
  const jobId = await gateway.startImage({ prompt: 'a tree', webhookUrl });
  await untilHolds(() => expect(output).toBe(`studio.job.completed ${jobId}\n`));
  const forged = await fetch(webhookUrl, {
    method: 'POST',
    headers: {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
      'webhook-signature': 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
    },
    body: '{}',
  });
  expect(forged.status).toBe(400);
  child.kill('SIGKILL');
  await once(child, 'exit');
  await gateway.receiver.up();
});
