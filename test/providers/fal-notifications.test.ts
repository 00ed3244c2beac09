/**
 * The keys of fal’s webhook signatures are fetched from a server that can hang, fail or replace its
 * keys. Notifications wait only briefly for it, keys expire, and a notification that may be genuine
 * is never rejected as forged.
 */
import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { Agent } from 'undici';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createFalVerifier } from '../../providers/fal/index.ts';
import { during } from '../harness/during.ts';
import { startHttpServer } from '../harness/http-server.ts';

let answer: RequestListener;
let fetches: number;
let key: KeyObject;
let published: object;
const agent = new Agent();

const server = during(() =>
  startHttpServer((request, response) => {
    fetches += 1;
    answer(request, response);
  }),
);
beforeEach(() => {
  fetches = 0;
  const pair = generateKeyPairSync('ed25519');
  key = pair.privateKey;
  published = pair.publicKey.export({ format: 'jwk' });
  answer = publish;
});
afterEach(() => vi.useRealTimers());
afterAll(() => agent.destroy());

const publish: RequestListener = (_request, response) =>
  void response.end(JSON.stringify({ keys: [{ kty: 'RSA' }, published] }));
const fail: RequestListener = (_request, response) => void response.writeHead(500).end('down');
const hang: RequestListener = () => {};
/** Sends the beginning of a response, and never ends it. */
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

/** Time between a failed fetch of the keys and the next one, in milliseconds. */
const retryIntervalMs = 2000;
/** Age at which keys expire, in milliseconds. */
const dayMs = 24 * 3_600_000;
/** Makes a verifier whose keys expire by a clock that only the test moves. */
function createVerifier(options: { fetchTimeoutMs?: number } = {}) {
  vi.useFakeTimers({ toFake: ['performance'] });
  return createFalVerifier({ jwksUrl: server.url, agent, ...options });
}

const forger = generateKeyPairSync('ed25519').privateKey;
const unavailable = { code: 'SERVICE_UNAVAILABLE' };
const rejected = { name: 'NotificationRejected' };

describe('the signature keys of fal', () => {
  it('are fetched once for many notifications, and not again for each forged one', async () => {
    const verify = createVerifier();
    const genuine = Array.from({ length: 10 }, () => verify(notification()));
    await expect(Promise.all(genuine)).resolves.toHaveLength(10);
    for (let count = 0; count < 5; count += 1) {
      await expect(verify(notification(forger))).rejects.toMatchObject(rejected);
    }
    expect(fetches).toBe(1);
  });

  it.each([
    ['does not answer', hang],
    ['never ends its answer', dribble],
  ])('are awaited only until the fetch timeout if their server %s', async (_what, badly) => {
    answer = badly;
    const verify = createVerifier({ fetchTimeoutMs: 300 });
    const startedAtMs = Date.now();
    const both = [verify(notification()), verify(notification(forger))];
    for (const one of both) await expect(one).rejects.toMatchObject(unavailable);
    expect(Date.now() - startedAtMs).toBeLessThan(20_000);
    // The provider sends it again soon, and the keys are fetched again.
    answer = publish;
    vi.advanceTimersByTime(retryIntervalMs);
    await expect(verify(notification())).resolves.toEqual({ operationId: 'r1' });
  });

  it('expire after a day, also if no new keys can be fetched', async () => {
    const verify = createVerifier();
    await verify(notification());
    answer = fail;
    await expect(verify(notification())).resolves.toEqual({ operationId: 'r1' });
    vi.advanceTimersByTime(dayMs);
    // The first check fetches keys; a failed fetch must not extend the life of the old keys.
    for (let count = 0; count < 3; count += 1) {
      await expect(verify(notification())).rejects.toMatchObject(unavailable);
    }
  });

  it('are rejected after the next fetch if fal withdrew them', async () => {
    const verify = createVerifier();
    await verify(notification());
    const withdrawn = key;
    const next = generateKeyPairSync('ed25519');
    published = next.publicKey.export({ format: 'jwk' });
    vi.advanceTimersByTime(dayMs);
    await expect(verify(notification(next.privateKey))).resolves.toEqual({ operationId: 'r1' });
    await expect(verify(notification(withdrawn))).rejects.toMatchObject(rejected);
  });
});
