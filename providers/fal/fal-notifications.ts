/**
 * Verifies fal's webhooks: Ed25519 signatures over `request id \n user id \n timestamp \n
 * sha256(body)`, with public keys from a JWKS URL (fal's webhook documentation, docs/providers.md).
 */
import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto';
import { request, type Dispatcher } from 'undici';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import {
  NotificationRejected,
  type ProviderNotification,
  type RawNotification,
} from '../provider.ts';

interface VerifierOptions {
  jwksUrl: string;
  agent: Dispatcher;
  /** Timeout of a request for the keys, in milliseconds. */
  fetchTimeoutMs?: number;
}

/** Age at which fetched keys expire; fal allows at most a day. */
const keysAgeMaxMs = 24 * 3_600_000;
/**
 * Minimum time between two requests for the keys, so that forged signatures cause at most one
 * request per minute.
 */
const refetchIntervalMs = 60_000;
/** Minimum time between two requests for the keys after a failed one. */
const retryIntervalMs = 2000;
const timestampSkewMaxSeconds = 300;

const jwks = z.object({
  keys: z.array(z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.string() })),
});
const notificationBody = z.object({ request_id: z.string().min(1) });
const signatureForm = /^[0-9a-f]{128}$/i;

/** Returns whether a signature was made with one of fal's current keys. */
type IsSigned = (message: Buffer, signature: Buffer) => Promise<boolean>;

/**
 * Creates the function that checks signatures. If a request for the keys fails, it uses the
 * previous keys until they expire.
 * @throws GatewayError SERVICE_UNAVAILABLE (by the returned function) if the current keys cannot be
 * fetched
 */
function createSignatureCheck(options: VerifierOptions): IsSigned {
  const { fetchTimeoutMs = 5000 } = options;
  let keys: KeyObject[] = [];
  let fetchedAtMs = Number.NEGATIVE_INFINITY;
  let nextFetchAtMs = Number.NEGATIVE_INFINITY;
  let failed = false;
  let refreshing: Promise<void> | null = null;

  async function refresh(): Promise<void> {
    const startedAtMs = performance.now();
    try {
      const response = await request(options.jwksUrl, {
        dispatcher: options.agent,
        signal: AbortSignal.timeout(fetchTimeoutMs),
      });
      const parsed = jwks.parse(await response.body.json());
      keys = parsed.keys.map((key) => createPublicKey({ key, format: 'jwk' }));
      fetchedAtMs = startedAtMs;
      failed = false;
    } catch {
      failed = true;
    }
    nextFetchAtMs = performance.now() + (failed ? retryIntervalMs : refetchIntervalMs);
    refreshing = null;
  }

  const areFresh = (): boolean => performance.now() - fetchedAtMs < keysAgeMaxMs;
  return async (message, signature) => {
    const matches = (): boolean =>
      areFresh() && keys.some((key) => verify(null, message, key, signature));
    if (matches()) return true;
    const isFetchDue = performance.now() >= nextFetchAtMs || !(areFresh() || failed);
    // Checks that start during a request for the keys wait for the same response.
    if (isFetchDue) refreshing ??= refresh();
    await refreshing;
    if (matches()) return true;
    // The signature may belong to a new key that could not be fetched. After this error, fal sends
    // the webhook again.
    if (failed) throw new GatewayError('SERVICE_UNAVAILABLE', undefined, { retryAfterSeconds: 5 });
    return false;
  };
}

/** Creates the function that verifies a notification; see `OperationsApi.verify`. */
export function createFalVerifier(
  options: VerifierOptions,
): (raw: RawNotification) => Promise<ProviderNotification> {
  const isSigned = createSignatureCheck(options);

  return async (raw) => {
    const requestId = raw.headers['x-fal-webhook-request-id'] ?? '';
    const userId = raw.headers['x-fal-webhook-user-id'] ?? '';
    const timestamp = raw.headers['x-fal-webhook-timestamp'] ?? '';
    const signature = raw.headers['x-fal-webhook-signature'] ?? '';
    if (!requestId || !/^\d{1,12}$/.test(timestamp) || !signatureForm.test(signature)) {
      throw new NotificationRejected('signature headers are missing or malformed');
    }
    const digest = createHash('sha256').update(raw.body).digest('hex');
    const message = Buffer.from([requestId, userId, timestamp, digest].join('\n'));
    if (!(await isSigned(message, Buffer.from(signature, 'hex')))) {
      throw new NotificationRejected('the signature is not valid');
    }
    // The time is checked after the signature, so that the error of an old notification differs
    // from that of a forged one.
    if (Math.abs(Date.now() / 1000 - Number(timestamp)) > timestampSkewMaxSeconds) {
      throw new NotificationRejected(
        'the timestamp differs from the current time by more than 5 minutes',
      );
    }
    const body = notificationBody.safeParse(parseJson(raw.body));
    if (!body.success || body.data.request_id !== requestId) {
      throw new NotificationRejected(
        'the request id of the body differs from the signed request id',
      );
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
