/**
 * Verifies the signatures of fal's webhooks with public keys from a JWKS URL. The signature is
 * Ed25519 over `request id \n user id \n timestamp \n sha256(body)` (docs/providers.md).
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
  /** Timeout of a request for the public keys, in milliseconds. */
  fetchTimeoutMs?: number;
}

/** Age at which fetched public keys expire, in milliseconds. fal allows at most one day. */
const keysAgeMaxMs = 24 * 3_600_000;
/**
 * Minimum time between two requests for the public keys. It ensures that forged signatures cause at
 * most one request per minute.
 */
const refetchIntervalMs = 60_000;
/** Minimum time before the next request for the public keys after a failed request. */
const retryIntervalMs = 2000;
const timestampSkewMaxSeconds = 300;

const publicKey = z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.string() });
/** Schema of the public keys; keys of other types are ignored (RFC 7517 §5). */
const jwks = z.object({ keys: z.array(publicKey.nullable().catch(null)) });
const notificationBody = z.object({ request_id: z.string().min(1) });
const signatureForm = /^[0-9a-f]{128}$/i;

/** Function that returns whether a signature was made with one of fal's current keys. */
type IsSigned = (message: Buffer, signature: Buffer) => Promise<boolean>;

/**
 * Creates the function that checks signatures. If a request for the public keys fails, the function
 * uses the previous keys until they expire. The function throws GatewayError SERVICE_UNAVAILABLE if
 * the previous keys do not match and the current keys cannot be fetched.
 */
function createSignatureCheck(options: VerifierOptions): IsSigned {
  const { fetchTimeoutMs = 5000 } = options;
  let keys: KeyObject[] = [];
  let fetchedAtMs = Number.NEGATIVE_INFINITY;
  let nextFetchAtMs = Number.NEGATIVE_INFINITY;
  let hasFetchFailed = false;
  let pendingRefresh: Promise<void> | null = null;

  async function fetchKeys(): Promise<void> {
    const startedAtMs = performance.now();
    try {
      const response = await request(options.jwksUrl, {
        dispatcher: options.agent,
        signal: AbortSignal.timeout(fetchTimeoutMs),
      });
      const parsed = jwks.parse(await response.body.json());
      keys = parsed.keys
        .filter((key) => key !== null)
        .map((key) => createPublicKey({ key, format: 'jwk' }));
      fetchedAtMs = startedAtMs;
      hasFetchFailed = false;
    } catch {
      hasFetchFailed = true;
    }
    nextFetchAtMs = performance.now() + (hasFetchFailed ? retryIntervalMs : refetchIntervalMs);
    pendingRefresh = null;
  }

  const areKeysFresh = (): boolean => performance.now() - fetchedAtMs < keysAgeMaxMs;
  return async (message, signature) => {
    const hasMatchingKey = (): boolean =>
      areKeysFresh() && keys.some((key) => verify(null, message, key, signature));
    if (hasMatchingKey()) return true;
    const isFetchDue = performance.now() >= nextFetchAtMs || !(areKeysFresh() || hasFetchFailed);
    // Signature checks that start during a request for the public keys wait for the same response.
    if (isFetchDue) pendingRefresh ??= fetchKeys();
    await pendingRefresh;
    if (hasMatchingKey()) return true;
    // The signature may be made with a new key that could not be fetched. After this error, fal
    // sends the webhook again.
    if (hasFetchFailed)
      throw new GatewayError('SERVICE_UNAVAILABLE', undefined, { retryAfterSeconds: 5 });
    return false;
  };
}

/** Creates the function that verifies a notification (`OperationsApi.verify`). */
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
      throw new NotificationRejected('a signature header is missing or malformed');
    }
    const digest = createHash('sha256').update(raw.body).digest('hex');
    const message = Buffer.from([requestId, userId, timestamp, digest].join('\n'));
    if (!(await isSigned(message, Buffer.from(signature, 'hex')))) {
      throw new NotificationRejected('the signature is not valid');
    }
    // The timestamp is checked after the signature, so that the error for an old notification
    // differs from the error for a forged one.
    if (Math.abs(Date.now() / 1000 - Number(timestamp)) > timestampSkewMaxSeconds) {
      throw new NotificationRejected(
        'the timestamp differs from the current time by more than 5 minutes',
      );
    }
    const body = notificationBody.safeParse(parseJson(raw.body));
    if (!body.success || body.data.request_id !== requestId) {
      throw new NotificationRejected(
        'the request id in the body differs from the signed request id',
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
