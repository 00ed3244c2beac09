/** The provider without us: submit, webhook, result, file. What is slower than this, we added. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import { Agent, request } from 'undici';
import { z } from 'zod';
import type { Servers } from './servers.ts';

/** A direct client of the provider, woken by webhooks. */
export interface DirectClient {
  /** One image, its bytes read. */
  job: () => Promise<void>;
  stop: () => Promise<void>;
}

const endpoint = 'fal-ai/nano-banana';
const submitted = z.object({ request_id: z.string(), response_url: z.string() });
const finished = z.object({ images: z.array(z.object({ url: z.string() })).min(1) });

/** Opens the client and the receiver of its webhooks. */
export async function openDirectClient(servers: Servers): Promise<DirectClient> {
  const agent = new Agent({ connections: 512, keepAliveTimeout: 30_000 });
  const waiting = new Map<string, () => void>();
  let turn = 0;
  const receiver = createServer((message, answer) => {
    message.resume().on('end', () => {
      answer.end();
      waiting.get(message.url ?? '')?.();
    });
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const address = receiver.address();
  if (typeof address !== 'object' || !address) throw new Error('the receiver has no port');
  const receiverUrl = `http://127.0.0.1:${address.port}`;
  const headers = {
    authorization: `Key ${servers.secrets.sandboxFalKey}`,
    'content-type': 'application/json',
  };

  async function job(): Promise<void> {
    turn += 1;
    const path = `/${turn}`;
    const told = new Promise<void>((resolve) => waiting.set(path, resolve));
    const hook = encodeURIComponent(`${receiverUrl}${path}`);
    const answer = await request(
      `${servers.plan.sandboxUrl}/fal/queue/${endpoint}?fal_webhook=${hook}`,
      {
        dispatcher: agent,
        method: 'POST',
        headers,
        body: JSON.stringify({ prompt: `a lighthouse at dawn, number ${turn}`, num_images: 1 }),
      },
    );
    const { response_url: resultUrl } = submitted.parse(await answer.body.json());
    await told;
    waiting.delete(path);
    const result = await request(resultUrl, { dispatcher: agent, headers });
    const { images } = finished.parse(await result.body.json());
    const file = await request(images[0]?.url ?? '', { dispatcher: agent });
    if (file.statusCode !== 200) throw new Error(`the file answered ${file.statusCode}`);
    await file.body.bytes();
  }
  return {
    job,
    async stop() {
      await agent.close();
      receiver.closeAllConnections();
      receiver.close();
    },
  };
}
