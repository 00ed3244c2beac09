/**
 * fal's queue protocol: submit, status, result, cancel. Written on undici and not on the vendor's client,
 * which repeats a submit up to four times on 5xx, each of them paid (docs/decisions/0003).
 *
 * Source: fal's queue and webhook documentation, as gathered in docs/providers.md.
 */
import { Agent, request, type Dispatcher } from 'undici';
import { z } from 'zod';
import { assert } from '../../../domain/assert.ts';
import { parseRetryAfter } from '../retry-after.ts';
import {
  ProviderFailure,
  type Canceled,
  type Checked,
  type Operation,
  type Provider,
  type Submission,
  type Submitted,
} from '../provider.ts';
import { failureOfResult, failureOfSubmit, failureOfTransport } from './fal-failures.ts';
import { createFalVerifier } from './fal-notifications.ts';
import { outputsOf } from './fal-outputs.ts';

interface FalOptions {
  apiKey: string;
  /** e.g. https://queue.fal.run */
  queueUrl: string;
  jwksUrl: string;
  /** Milliseconds a single HTTP exchange may take. */
  timeoutMs?: number;
}

const submitAnswer = z.object({ request_id: z.string().min(1) });
const statusAnswer = z.object({
  status: z.enum(['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED']),
  queue_position: z.number().nullish(),
});
const operationShape = z.object({ endpoint: z.string(), id: z.string() });

interface Answer {
  status: number;
  headers: Dispatcher.ResponseData['headers'];
  body: unknown;
}

/** Answers are short JSON documents; anything longer is not one. */
const answerBytesMax = 4 * 1024 * 1024;

/** The fal provider. */
export function createFalProvider(options: FalOptions): Provider {
  const timeoutMs = options.timeoutMs ?? 30_000;
  const agent = new Agent({
    connect: { timeout: 5000 },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: 30_000,
    connections: 256,
  });
  const base = options.queueUrl.replace(/\/$/, '');

  async function exchange(
    method: 'GET' | 'POST' | 'PUT',
    url: string,
    rest: { body?: string; signal: AbortSignal },
  ): Promise<Answer> {
    const answer = await request(url, {
      method,
      dispatcher: agent,
      signal: rest.signal,
      headers: {
        authorization: `Key ${options.apiKey}`,
        accept: 'application/json',
        'accept-encoding': 'identity',
        ...(rest.body !== undefined && { 'content-type': 'application/json' }),
      },
      body: rest.body ?? null,
    });
    return {
      status: answer.statusCode,
      headers: answer.headers,
      body: await readJson(answer.body),
    };
  }

  /** Status, result and cancel live on the root of the endpoint id: its first two segments. */
  function requestUrl(operation: Operation): string {
    const { endpoint, id } = operationShape.parse(operation);
    const root = endpoint.split('/').slice(0, 2).join('/');
    return `${base}/${root}/requests/${encodeURIComponent(id)}`;
  }

  async function submit(submission: Submission): Promise<Submitted> {
    const url = `${base}/${submission.operation}?fal_webhook=${encodeURIComponent(submission.notificationUrl)}`;
    let answer: Answer;
    try {
      answer = await exchange('POST', url, {
        body: JSON.stringify(submission.input),
        signal: submission.signal,
      });
    } catch (error) {
      throw failureOfTransport(error);
    }
    if (answer.status >= 400) throw failureOfSubmit(answer);
    const parsed = submitAnswer.safeParse(answer.body);
    if (!parsed.success) {
      throw new ProviderFailure('unknown', 'the provider answered a submit without a request id');
    }
    return {
      kind: 'operation',
      operation: { endpoint: submission.operation, id: parsed.data.request_id },
    };
  }

  async function look(url: string, signal: AbortSignal): Promise<Answer> {
    try {
      return await exchange('GET', url, { signal });
    } catch (error) {
      throw new ProviderFailure('unreachable', 'the provider could not be asked', { cause: error });
    }
  }

  async function result(operation: Operation, signal: AbortSignal): Promise<Checked> {
    const answer = await look(requestUrl(operation), signal);
    if (answer.status === 200) return outputsOf(answer.body);
    return failureOfResult(answer);
  }

  return {
    name: 'fal',
    submit,
    async check(operation, looking) {
      if (looking.expectDone) return result(operation, looking.signal);
      const answer = await look(`${requestUrl(operation)}/status?logs=0`, looking.signal);
      const parsed = statusAnswer.safeParse(answer.body);
      if (answer.status >= 400 || !parsed.success) {
        throw new ProviderFailure(
          'unreachable',
          `the provider answered a look with ${answer.status}`,
          {
            retryAfterMs: parseRetryAfter(answer.headers['retry-after']),
          },
        );
      }
      if (parsed.data.status === 'COMPLETED') return result(operation, looking.signal);
      return {
        kind: 'pending',
        progress: {
          state: parsed.data.status === 'IN_QUEUE' ? 'queued' : 'generating',
          queuePosition: parsed.data.queue_position ?? null,
        },
      };
    },
    async cancel(operation, signal): Promise<Canceled> {
      try {
        const answer = await exchange('PUT', `${requestUrl(operation)}/cancel`, { signal });
        return answer.status === 202 || answer.status === 200 ? 'requested' : 'already_done';
      } catch (error) {
        throw new ProviderFailure('unreachable', 'the provider could not be asked', {
          cause: error,
        });
      }
    },
    adopt: (endpoint, id) => ({ endpoint, id }),
    verify: createFalVerifier({ jwksUrl: options.jwksUrl, agent }),
  };
}

async function readJson(body: Dispatcher.ResponseData['body']): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    assert(Buffer.isBuffer(chunk), 'undici yields buffers');
    size += chunk.length;
    if (size > answerBytesMax) {
      body.destroy();
      return undefined;
    }
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}
