/**
 * Webhook signatures of fal: Ed25519 over `request id \
 *  user id \
 *  timestamp \
 *  sha256(body)`, with the public keys of a JWKS URL (fal's webhook documentation,
 * docs/providers.md).
 */
import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto';
import { request, type Dispatcher } from 'undici';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { NotificationRefused, type Notification, type RawNotification } from '../provider.ts';

interface VerifierOptions {
  jwksUrl: string;
  agent: Dispatcher;
  /** Time limit of a request for the keys. */
  fetchTimeoutMs?: number;
}

/** Age at which fetched keys expire; fal allows a day at most. */
const keysAgeMaxMs = 24 * 3_600_000;
/**
 * Shortest time between two requests for the keys, so that a forged signature does not cause one
 * each time.
 */
const refetchIntervalMs = 60_000;
/** Shortest time between two requests while they fail. */
const retryIntervalMs = 2000;
const timestampSkewMaxSeconds = 300;

const jwks = z.object({
  keys: z.array(z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.string() })),
});
const notificationBody = z.object({ request_id: z.string().min(1) });
const signatureForm = /^[0-9a-f]{128}$/i;

/** Returns whether one of fal's current keys made a signature. */
type Holds = (message: Buffer, signature: Buffer) => Promise<boolean>;

/** Keeps the keys that were fetched last until they expire, also while later requests fail. */
function createKeys(options: VerifierOptions): Holds {
  const { fetchTimeoutMs = 5000 } = options;
  let keys: KeyObject[] = [];
  let fetchedAtMs = Number.NEGATIVE_INFINITY;
  let askAgainAtMs = Number.NEGATIVE_INFINITY;
  let failed = false;
  let refreshing: Promise<void> | null = null;

  async function refresh(): Promise<void> {
    const askedAtMs = performance.now();
    try {
      const answer = await request(options.jwksUrl, {
        dispatcher: options.agent,
        signal: AbortSignal.timeout(fetchTimeoutMs),
      });
      const parsed = jwks.parse(await answer.body.json());
      keys = parsed.keys.map((key) => createPublicKey({ key, format: 'jwk' }));
      fetchedAtMs = askedAtMs;
      failed = false;
    } catch {
      failed = true;
    }
    askAgainAtMs = performance.now() + (failed ? retryIntervalMs : refetchIntervalMs);
    refreshing = null;
  }

  const fresh = (): boolean => performance.now() - fetchedAtMs < keysAgeMaxMs;
  return async (message, signature) => {
    const matches = (): boolean =>
      fresh() && keys.some((key) => verify(null, message, key, signature));
    if (matches()) return true;
    const due = performance.now() >= askAgainAtMs || !(fresh() || failed);
    // Verifications during a request for the keys share its result.
    if (due) refreshing ??= refresh();
    await refreshing;
    if (matches()) return true;
    // The signature may be valid with a key that could not be fetched: fal repeats the
    // notification.
    if (failed) throw new GatewayError('SERVICE_UNAVAILABLE', undefined, { retryAfterSeconds: 5 });
    return false;
  };
}

/** Makes the verification of a notification (`ProviderQueue.verify`). */
export function createFalVerifier(
  options: VerifierOptions,
): (raw: RawNotification) => Promise<Notification> {
  const holds = createKeys(options);

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
      throw new NotificationRefused('the signature is not valid');
    }
    // Checked last, so that an old but authentic notification is told apart from a forged one.
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
