/**
 * fal's queue protocol: submit, status, result, cancel. Written on undici and not on the vendor's client,
 * which repeats a submit up to four times on 5xx, each of them paid (docs/decisions/0003).
 *
 * Source: fal's queue and webhook documentation, as gathered in docs/providers.md.
 */
import { z } from 'zod';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { ProviderOutput } from '../../storage/artifacts.ts';
import {
  defineProvider,
  type Canceled,
  type Checked,
  type CheckOptions,
  type Operation,
  type Provider,
  type Submission,
  type Submitted,
} from '../provider.ts';
import {
  createExchange,
  providerAgent,
  readJson,
  sendCall,
  againstPolicy,
  failureOfStatus,
  refusedFields,
  parseRetryAfter,
  type ProviderRequest,
} from '../provider-http.ts';
import { createFalVerifier } from './fal-notifications.ts';
import { count } from '../../platform/config-variables.ts';

interface FalOptions {
  apiKey: string;
  /** Base URL, e.g. https://queue.fal.run */
  queueUrl: string;
  jwksUrl: string;
}

const submitAnswer = z.object({ request_id: z.string().min(1) });
const statusAnswer = z.object({
  status: z.enum(['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED']),
  queue_position: z.number().nullish(),
});
const operationShape = z.object({ endpoint: z.string(), id: z.string() });
/** Longest response in bytes; responses are short JSON documents. */
const answerBytesMax = 4 * 1024 * 1024;
const timeoutMs = 30_000;

type FalExchange = (wanted: ProviderRequest) => Promise<FalAnswer>;

/** The fal provider. */
function createFalProvider(options: FalOptions): Provider {
  const agent = providerAgent({ headersTimeout: timeoutMs, bodyTimeout: timeoutMs });
  const send = createExchange(agent, { authorization: `Key ${options.apiKey}` });
  const exchange: FalExchange = async (wanted) => {
    const { body, ...head } = await send({ ...wanted, headers: { accept: 'application/json' } });
    return { ...head, body: await readJson(body, answerBytesMax) };
  };
  const base = options.queueUrl.replace(/\/$/, '');
  return {
    name: 'fal',
    submit: (submission) => submit(exchange, base, submission),
    queue: {
      check: (operation, how) => check(exchange, requestUrl(base, operation), how),
      async cancel(operation, signal): Promise<Canceled> {
        const url = `${requestUrl(base, operation)}/cancel`;
        const answer = await asked(exchange({ method: 'PUT', url, signal }));
        return answer.status === 202 || answer.status === 200 ? 'requested' : 'already_done';
      },
      adopt: (endpoint, id) => ({ endpoint, id }),
      verify: createFalVerifier({ jwksUrl: options.jwksUrl, agent }),
    },
  };
}

/**
 * Returns the root of the endpoint id, its first two segments: status, result and cancel have their
 * paths below it.
 */
function requestUrl(base: string, operation: Operation): string {
  const { endpoint, id } = operationShape.parse(operation);
  const root = endpoint.split('/').slice(0, 2).join('/');
  return `${base}/${root}/requests/${encodeURIComponent(id)}`;
}

async function submit(
  exchange: FalExchange,
  base: string,
  submission: Submission,
): Promise<Submitted> {
  const { operation, input, notificationUrl, signal } = submission;
  const url = `${base}/${operation}?fal_webhook=${encodeURIComponent(notificationUrl)}`;
  const answer = await sendCall(exchange({ url, json: input, signal }));
  if (answer.status >= 400) throw failureOfSubmit(answer);
  const parsed = submitAnswer.safeParse(answer.body);
  if (!parsed.success) {
    throw new ProviderFailure('unknown', 'the provider answered a submit without a request id');
  }
  return { kind: 'operation', operation: { endpoint: operation, id: parsed.data.request_id } };
}

async function check(exchange: FalExchange, url: string, options: CheckOptions): Promise<Checked> {
  const { signal } = options;
  if (!options.expectDone) {
    const pending = await statusOf(exchange, url, signal);
    if (pending) return pending;
  }
  const answer = await asked(exchange({ method: 'GET', url, signal }));
  return answer.status === 200 ? outputsOf(answer.body) : failureOfResult(answer);
}

/** Returns the progress of the operation; null if it has ended. */
async function statusOf(
  exchange: FalExchange,
  url: string,
  signal: AbortSignal,
): Promise<Checked | null> {
  const answer = await asked(exchange({ method: 'GET', url: `${url}/status?logs=0`, signal }));
  const parsed = statusAnswer.safeParse(answer.body);
  if (answer.status >= 400 || !parsed.success) throw uninformative(answer);
  if (parsed.data.status === 'COMPLETED') return null;
  return {
    kind: 'pending',
    progress: {
      state: parsed.data.status === 'IN_QUEUE' ? 'queued' : 'generating',
      queuePosition: parsed.data.queue_position ?? null,
    },
  };
}

async function asked(answer: Promise<FalAnswer>): Promise<FalAnswer> {
  try {
    return await answer;
  } catch (error) {
    throw new ProviderFailure('unreachable', 'the provider could not be reached', { cause: error });
  }
}

const file = z.object({ url: z.string().min(1) });
/** Fields in which fal's models return their files. */
const resultAnswer = z.object({
  images: z.array(file).nullish(),
  image: file.nullish(),
  video: z.union([file, z.array(file)]).nullish(),
});

/** Returns the files of a result; a result without files is a failure of the provider. */
function outputsOf(body: unknown): Checked {
  const { images, image, video } = resultAnswer.safeParse(body).data ?? {};
  const outputs = [images ?? [], image ?? [], video ?? []]
    .flat()
    .map(({ url }): ProviderOutput => ({ kind: 'url', url }));
  if (outputs.length > 0) return { kind: 'result', result: { outputs, data: null } };
  const message = 'the provider answered without a usable output';
  return { kind: 'failed', failure: new ProviderFailure('failed', message) };
}

export default defineProvider({
  name: 'fal',
  variables: {
    FAL_KEY: z.string().min(8),
    FAL_QUEUE_URL: z.url().default('https://queue.fal.run'),
    FAL_JWKS_URL: z.url().default('https://rest.fal.ai/.well-known/jwks.json'),
    FAL_CONCURRENCY: count(1, 2000).default(200),
  },
  key: 'FAL_KEY',
  traits: { notifies: true, submitTimeoutMs: 45_000 },
  concurrency: (settings) => settings.FAL_CONCURRENCY,
  create: (settings) =>
    createFalProvider({
      apiKey: settings.FAL_KEY,
      queueUrl: settings.FAL_QUEUE_URL,
      jwksUrl: settings.FAL_JWKS_URL,
    }),
  sandbox: (url) => ({
    FAL_QUEUE_URL: `${url}/fal/queue`,
    FAL_JWKS_URL: `${url}/fal/.well-known/jwks.json`,
  }),
});

/** Response of fal with its JSON body; `body` is undefined if it is not JSON or too long. */
interface FalAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: unknown;
}

const platformError = z.object({ detail: z.string(), error_type: z.string().nullish() });

/** Makes the failure of a submit with an error status. */
function failureOfSubmit(answer: FalAnswer): ProviderFailure {
  const { types, fields } = refusedFields(answer.body);
  const failure = failureOfStatus(answer, { fields, areOwn: errorTypeOf(answer) !== null });
  const isPolicy = failure.kind === 'rejected' && types.includes('content_policy_violation');
  return isPolicy ? againstPolicy() : failure;
}

/** Returns fal's type of the failure; null if the response is not fal's own. */
function errorTypeOf({ headers, body }: FalAnswer): string | null {
  const header = headers['x-fal-error-type'];
  if (typeof header === 'string') return header;
  return platformError.safeParse(body).data?.error_type ?? null;
}

/** Makes the failure of a result request with an error status. */
function failureOfResult(answer: FalAnswer): Checked {
  const platform = platformError.safeParse(answer.body).data;
  if (platform && /in progress/i.test(platform.detail)) {
    return { kind: 'pending', progress: { state: 'generating', queuePosition: null } };
  }
  if (platform && /cancel/i.test(`${platform.error_type} ${platform.detail}`)) {
    return { kind: 'failed', failure: new ProviderFailure('canceled', 'canceled at the provider') };
  }
  if ([400, 413, 422].includes(answer.status)) {
    return { kind: 'failed', failure: failureOfSubmit(answer) };
  }
  if (errorTypeOf(answer) || refusedFields(answer.body).isListed) {
    return {
      kind: 'failed',
      failure: new ProviderFailure('failed', `the provider failed (${answer.status})`),
    };
  }
  // An error page of a proxy says nothing about the operation.
  throw uninformative(answer);
}

/** Makes the failure of a check whose response does not contain a status. */
function uninformative({ status, headers }: FalAnswer): ProviderFailure {
  return new ProviderFailure('unreachable', `the provider answered a check with ${status}`, {
    retryAfterMs: parseRetryAfter(headers['retry-after']),
  });
}
