/**
 * Adapter for fal's queue API: submit, status, result, cancel. The adapter uses undici instead of
 * the vendor's client, which repeats a submit up to four times after a 5xx response, and each
 * repetition costs money (docs/decisions/0003).
 *
 * Source: fal's queue and webhook documentation, as gathered in docs/providers.md.
 */
import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto';
import { request, type Dispatcher } from 'undici';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import {
  NotificationRejected,
  type ProviderNotification,
  type RawNotification,
  type CheckResult,
  type CancelResult,
  type CheckOptions,
  type ProviderOperation,
  type Provider,
  type Submission,
  type SubmitResult,
  defineProvider,
} from '../provider.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import {
  contentPolicyFailure,
  toStatusFailure,
  parseRetryAfter,
  readInvalidFields,
} from '../error-responses.ts';
import type { ProviderOutput } from '../../storage/provider-output.ts';
import {
  createExchange,
  createProviderAgent,
  readJson,
  sendCall,
  type ProviderRequest,
} from '../provider-http.ts';
import { count, providerKey, webUrl } from '../../platform/variable-types.ts';

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

/** Response of fal; `body` is the parsed JSON, undefined if too long or not JSON. */
export interface FalResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: unknown;
}

const platformError = z.object({ detail: z.string(), error_type: z.string().nullish() });

/** Creates the failure of a submit whose response has an error status. */
function toSubmitFailure(response: FalResponse): ProviderFailure {
  const { types, fields } = readInvalidFields(response.body);
  const platformType = findErrorType(response);
  const errorType = platformType ?? types.find(Boolean);
  const isOwnError = platformType !== null;
  const failure = toStatusFailure(response, { fields, errorType, isOwnError });
  const violatesPolicy = failure.kind === 'rejected' && types.includes('content_policy_violation');
  return violatesPolicy ? contentPolicyFailure(response, { errorType }) : failure;
}

/** Returns fal's error type; null if the response is not from fal itself, e.g. from a proxy. */
function findErrorType({ headers, body }: FalResponse): string | null {
  const header = headers['x-fal-error-type'];
  if (typeof header === 'string') return header;
  return platformError.safeParse(body).data?.error_type ?? null;
}

/**
 * Reads the state of an operation from an error response to the request for its result.
 * @throws ProviderFailure `unreachable` if the response does not show the state
 */
function readFailedResult(response: FalResponse): CheckResult {
  const platformBody = platformError.safeParse(response.body).data;
  const { isListed, types } = readInvalidFields(response.body);
  const providerErrorType = findErrorType(response) ?? types.find(Boolean);
  if (platformBody && /in progress/i.test(platformBody.detail)) {
    return { kind: 'pending', progress: { state: 'generating', queuePosition: null } };
  }
  if (platformBody && /cancel/i.test(`${platformBody.error_type} ${platformBody.detail}`)) {
    return {
      kind: 'failed',
      failure: new ProviderFailure('canceled', 'the provider canceled the call', {
        providerErrorType,
      }),
    };
  }
  if ([400, 413, 422].includes(response.status)) {
    return { kind: 'failed', failure: toSubmitFailure(response) };
  }
  if (findErrorType(response) || isListed) {
    return {
      kind: 'failed',
      failure: new ProviderFailure('failed', `the provider failed (${response.status})`, {
        providerErrorType,
      }),
    };
  }
  // An error page of a proxy does not show the state of the operation.
  throw unclearStatusFailure(response);
}

/** Creates the failure of a check whose response does not show the state of the operation. */
function unclearStatusFailure({ status, headers }: FalResponse): ProviderFailure {
  return new ProviderFailure('unreachable', `the provider responded with status ${status}`, {
    retryAfterMs: parseRetryAfter(headers['retry-after']),
  });
}

interface FalOptions {
  apiKey: string;
  /** Base URL of the queue API, e.g. https://queue.fal.run */
  queueUrl: string;
  jwksUrl: string;
}

const submitBody = z.object({ request_id: z.string().min(1) });
const statusBody = z.object({
  status: z.enum(['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED']),
  // A position that is not an integer of Postgres is ignored, because reads of jobs would fail.
  queue_position: z.int32().nullish().catch(null),
});
const operationShape = z.object({ endpoint: z.string(), id: z.string() });
/** Maximum size of a response body in bytes. The responses of fal are short JSON documents. */
const responseBytesMax = 4 * 1024 * 1024;
const timeoutMs = 30_000;

type FalExchange = (providerRequest: ProviderRequest) => Promise<FalResponse>;

/** Creates the adapter for fal. */
function createFalProvider(options: FalOptions): Provider {
  const agent = createProviderAgent({ headersTimeout: timeoutMs, bodyTimeout: timeoutMs });
  const send = createExchange(agent, { authorization: `Key ${options.apiKey}` });
  const exchange: FalExchange = async (providerRequest) => {
    const { body, ...head } = await send({
      ...providerRequest,
      headers: { accept: 'application/json' },
    });
    return { ...head, body: await readJson(body, responseBytesMax) };
  };
  const base = options.queueUrl.replace(/\/$/, '');
  return {
    name: 'fal',
    submit: (submission) => submit(exchange, base, submission),
    operations: {
      check: (operation, checkOptions) =>
        check(exchange, buildOperationUrl(base, operation), checkOptions),
      async cancel(operation, signal): Promise<CancelResult> {
        const url = `${buildOperationUrl(base, operation)}/cancel`;
        return readCancellation(await awaitResponse(exchange({ method: 'PUT', url, signal })));
      },
      adopt: (endpoint, id) => ({ endpoint, id }),
      verify: createFalVerifier({ jwksUrl: options.jwksUrl, agent }),
    },
  };
}

/**
 * Builds the URL of an operation. Its path starts with the first two segments of the endpoint id.
 */
function buildOperationUrl(base: string, operation: ProviderOperation): string {
  const { endpoint, id } = operationShape.parse(operation);
  const root = endpoint.split('/').slice(0, 2).join('/');
  return `${base}/${root}/requests/${encodeURIComponent(id)}`;
}

async function submit(
  exchange: FalExchange,
  base: string,
  submission: Submission,
): Promise<SubmitResult> {
  const { providerEndpoint, input, notificationUrl, signal } = submission;
  const url = `${base}/${providerEndpoint}?fal_webhook=${encodeURIComponent(notificationUrl)}`;
  const response = await sendCall(exchange({ url, json: input, signal }));
  if (response.status >= 400) throw toSubmitFailure(response);
  const parsedBody = submitBody.safeParse(response.body);
  if (!parsedBody.success) {
    throw new ProviderFailure('unknown', 'the provider responded to a submit without a request id');
  }
  return {
    kind: 'operation',
    operation: { endpoint: providerEndpoint, id: parsedBody.data.request_id },
  };
}

async function check(
  exchange: FalExchange,
  url: string,
  options: CheckOptions,
): Promise<CheckResult> {
  const { signal } = options;
  if (!options.hasEnded) {
    const pendingResult = await fetchStatus(exchange, url, signal);
    if (pendingResult) return pendingResult;
  }
  const response = await awaitResponse(exchange({ method: 'GET', url, signal }));
  return response.status === 200 ? readOutputs(response.body) : readFailedResult(response);
}

/**
 * Requests the status of an operation. Returns null if the operation has ended, whether it
 * succeeded or failed.
 */
async function fetchStatus(
  exchange: FalExchange,
  url: string,
  signal: AbortSignal,
): Promise<CheckResult | null> {
  const response = await awaitResponse(
    exchange({ method: 'GET', url: `${url}/status?logs=0`, signal }),
  );
  const parsedBody = statusBody.safeParse(response.body);
  if (response.status >= 400 || !parsedBody.success) throw unclearStatusFailure(response);
  if (parsedBody.data.status === 'COMPLETED') return null;
  return {
    kind: 'pending',
    progress: {
      state: parsedBody.data.status === 'IN_QUEUE' ? 'queued' : 'generating',
      queuePosition: parsedBody.data.queue_position ?? null,
    },
  };
}

/**
 * Reads the response to a cancellation request.
 * @throws ProviderFailure `unreachable` if it is unclear whether fal received the request
 */
function readCancellation(response: FalResponse): CancelResult {
  if (response.status === 200 || response.status === 202) return 'requested';
  if (response.status === 400 || response.status === 404) return 'already_done';
  throw unclearStatusFailure(response);
}

/** Waits for a response of fal. @throws ProviderFailure `unreachable` if there is none */
async function awaitResponse(response: Promise<FalResponse>): Promise<FalResponse> {
  try {
    return await response;
  } catch (error) {
    throw new ProviderFailure('unreachable', 'the provider could not be reached', { cause: error });
  }
}

const file = z.object({ url: z.string().min(1) });
/** Schema of the result of a model. The field that contains the files depends on the model. */
const resultBody = z.object({
  images: z.array(file).nullish(),
  image: file.nullish(),
  video: z.union([file, z.array(file)]).nullish(),
  video_url: z.string().min(1).nullish(),
});

/** Reads the files of a result. Returns a failure if there are none. */
function readOutputs(body: unknown): CheckResult {
  const { images, image, video, video_url: url } = resultBody.safeParse(body).data ?? {};
  const outputs = [images ?? [], image ?? [], video ?? [], url ? { url } : []]
    .flat()
    .map((output): ProviderOutput => ({ kind: 'url', url: output.url }));
  if (outputs.length > 0) return { kind: 'result', result: { outputs, data: null } };
  const message = 'the provider responded without a usable output';
  return { kind: 'failed', failure: new ProviderFailure('failed', message) };
}

export default defineProvider({
  name: 'fal',
  variables: {
    FAL_KEY: providerKey.optional(),
    FAL_QUEUE_URL: webUrl.default('https://queue.fal.run'),
    FAL_JWKS_URL: webUrl.default('https://rest.fal.ai/.well-known/jwks.json'),
    FAL_CONCURRENCY: count(1, 2000).default(200),
  },
  key: 'FAL_KEY',
  traits: { notifies: true, submitTimeoutMs: 45_000 },
  concurrency: (settings) => settings.FAL_CONCURRENCY,
  create: (settings, { apiKey }) =>
    createFalProvider({
      apiKey,
      queueUrl: settings.FAL_QUEUE_URL,
      jwksUrl: settings.FAL_JWKS_URL,
    }),
  sandbox: (url) => ({
    FAL_QUEUE_URL: `${url}/fal/queue`,
    FAL_JWKS_URL: `${url}/fal/.well-known/jwks.json`,
  }),
});
