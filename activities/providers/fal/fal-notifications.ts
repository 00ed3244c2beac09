/**
 * fal's webhook signatures: Ed25519 over `request id \n user id \n timestamp \n sha256(body)`, with the
 * public keys at a JWKS address (fal's webhook documentation, docs/providers.md).
 */
import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto';
import { request, type Dispatcher } from 'undici';
import { z } from 'zod';
import { NotificationRefused, type Notification, type RawNotification } from '../provider.ts';

interface VerifierOptions {
  jwksUrl: string;
  agent: Dispatcher;
}

const keysAgeMaxMs = 24 * 3_600_000;
/** A forged signature must not make us ask for the keys each time. */
const refetchIntervalMs = 60_000;
const timestampSkewMaxSeconds = 300;

const jwks = z.object({
  keys: z.array(z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.string() })),
});
const notificationBody = z.object({ request_id: z.string().min(1) });
const signatureForm = /^[0-9a-f]{128}$/i;

/** Makes the check of a notification; see `ProviderQueue.verify`. */
export function createFalVerifier(
  options: VerifierOptions,
): (raw: RawNotification) => Promise<Notification> {
  let keys: KeyObject[] = [];
  let fetchedAtMs = Number.NEGATIVE_INFINITY;
  let refreshing: Promise<void> | null = null;

  async function refreshKeys(): Promise<void> {
    fetchedAtMs = Date.now();
    const answer = await request(options.jwksUrl, { dispatcher: options.agent });
    const parsed = jwks.parse(await answer.body.json());
    keys = parsed.keys.map((key) => createPublicKey({ key, format: 'jwk' }));
  }

  async function holds(message: Buffer, signature: Buffer): Promise<boolean> {
    const matches = (): boolean => keys.some((key) => verify(null, message, key, signature));
    if (Date.now() - fetchedAtMs < keysAgeMaxMs && matches()) return true;
    if (refreshing === null) {
      if (Date.now() - fetchedAtMs < refetchIntervalMs) return false;
      refreshing = refreshKeys().finally(() => {
        refreshing = null;
      });
    }
    // Those that come while the keys are on their way wait for the same answer.
    await refreshing;
    return matches();
  }

  return async (raw) => {
    const requestId = raw.headers['x-fal-webhook-request-id'] ?? '';
    const userId = raw.headers['x-fal-webhook-user-id'] ?? '';
    const timestamp = raw.headers['x-fal-webhook-timestamp'] ?? '';
    const signature = raw.headers['x-fal-webhook-signature'] ?? '';
    if (!requestId || !/^\d{1,12}$/.test(timestamp) || !signatureForm.test(signature)) {
      throw new NotificationRefused('signature headers are missing or malformed');
    }
    const digest = createHash('sha256').update(raw.body).digest('hex');
    const message = Buffer.from([requestId, userId, timestamp, digest].join('\n'));
    if (!(await holds(message, Buffer.from(signature, 'hex')))) {
      throw new NotificationRefused('the signature does not hold');
    }
    // Last, so that a stale but genuine notification can be told from a forged one.
    if (Math.abs(Date.now() / 1000 - Number(timestamp)) > timestampSkewMaxSeconds) {
      throw new NotificationRefused('the timestamp is too far from now');
    }
    const body = notificationBody.safeParse(parseJson(raw.body));
    if (!body.success || body.data.request_id !== requestId) {
      throw new NotificationRefused('the body does not name the signed request');
    }
    return { operationId: requestId };
  };
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}
