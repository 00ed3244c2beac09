/**
 * The keys of fal's webhook signatures are fetched from elsewhere: that place may hang, fail or change its
 * keys. Nobody waits long for it, no key outlives its time, and what may be genuine is never called forged.
 */
import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createFalVerifier } from '../../activities/providers/fal/fal-notifications.ts';

let server: Server;
let jwksUrl: string;
let answer: RequestListener;
let fetches: number;
let key: KeyObject;
let published: object;
const agent = new Agent();

beforeAll(async () => {
  server = createServer((request, response) => {
    fetches += 1;
    answer(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('the server listens');
  jwksUrl = `http://127.0.0.1:${address.port}/jwks.json`;
});
beforeEach(() => {
  fetches = 0;
  const pair = generateKeyPairSync('ed25519');
  key = pair.privateKey;
  published = pair.publicKey.export({ format: 'jwk' });
  answer = publish;
});
afterAll(async () => {
  await agent.destroy();
  server.closeAllConnections();
  server.close();
});

const publish: RequestListener = (_request, response) =>
  void response.end(JSON.stringify({ keys: [published] }));
const fail: RequestListener = (_request, response) => void response.writeHead(500).end('down');
const hang: RequestListener = () => {};
/** The head of an answer, and no end of it. */
const dribble: RequestListener = (_request, response) => void response.write('{"keys":');

function notification(by = key) {
  const body = Buffer.from('{"request_id":"r1"}');
  const timestamp = String(Math.floor(Date.now() / 1000));
  const digest = createHash('sha256').update(body).digest('hex');
  const message = Buffer.from(['r1', 'u1', timestamp, digest].join('\n'));
  return {
    body,
    headers: {
      'x-fal-webhook-request-id': 'r1',
      'x-fal-webhook-user-id': 'u1',
      'x-fal-webhook-timestamp': timestamp,
      'x-fal-webhook-signature': sign(null, message, by).toString('hex'),
    },
  };
}

const forger = generateKeyPairSync('ed25519').privateKey;
const unavailable = { code: 'SERVICE_UNAVAILABLE' };
const refused = { name: 'NotificationRefused' };

describe('the keys of fal', () => {
  it('are fetched once for many, and not again for each forgery', async () => {
    const verify = createFalVerifier({ jwksUrl, agent });
    const genuine = Array.from({ length: 10 }, () => verify(notification()));
    await expect(Promise.all(genuine)).resolves.toHaveLength(10);
    for (let count = 0; count < 5; count += 1) {
      await expect(verify(notification(forger))).rejects.toMatchObject(refused);
    }
    expect(fetches).toBe(1);
  });

  it.each([
    ['does not answer', hang],
    ['never ends its answer', dribble],
  ])('are waited for no longer than their time when their place %s', async (_what, badly) => {
    answer = badly;
    const verify = createFalVerifier({ jwksUrl, agent, fetchTimeoutMs: 300 });
    const startedAtMs = performance.now();
    const both = [verify(notification()), verify(notification(forger))];
    for (const one of both) await expect(one).rejects.toMatchObject(unavailable);
    expect(performance.now() - startedAtMs).toBeLessThan(20_000);
    // It is asked again soon: the provider sends it once more.
    answer = publish;
    await expect.poll(() => verify(notification()).catch(() => null)).not.toBeNull();
  });

  it('end with their time, also when new ones cannot be had', async () => {
    const verify = createFalVerifier({ jwksUrl, agent, keysAgeMaxMs: 3000 });
    await verify(notification());
    answer = fail;
    await expect(verify(notification())).resolves.toEqual({ operationId: 'r1' });
    await sleep(3100);
    // The first look tries; those after it must not find the old keys young again.
    for (let count = 0; count < 3; count += 1) {
      await expect(verify(notification())).rejects.toMatchObject(unavailable);
    }
  });

  it('that were withdrawn are not believed after the next fetch', async () => {
    const verify = createFalVerifier({ jwksUrl, agent, keysAgeMaxMs: 3000 });
    await verify(notification());
    const withdrawn = key;
    const next = generateKeyPairSync('ed25519');
    published = next.publicKey.export({ format: 'jwk' });
    await sleep(3100);
    await expect(verify(notification(next.privateKey))).resolves.toEqual({ operationId: 'r1' });
    await expect(verify(notification(withdrawn))).rejects.toMatchObject(refused);
  });
});
