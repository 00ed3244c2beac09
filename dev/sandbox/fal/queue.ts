/** fal's queue protocol: submit, status, result, cancel. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Counters } from '../counters.ts';
import {
  answerErrorPage,
  answerHalfJson,
  durationMs,
  findFault,
  type FaultBook,
} from '../faults.ts';
import { answerJson, readJson, type Exchange, type Route } from '../http.ts';
import { rootAppId } from './endpoint.ts';
import { endpoints } from './endpoints/registry.ts';
import { queueMs, type Generator } from './generation.ts';
import { platformFailure, refusal, refusals } from './outcome.ts';
import type { FalRequest, RequestStore } from './requests.ts';

/**
 * Time for which `[[early-webhook]]` delays the response to a submit, until its webhook was sent.
 */
const earlyWebhookWaitMs = 2000;

/** Services of the queue's routes. */
export interface QueueOptions {
  store: RequestStore;
  generator: Generator;
  faults: FaultBook;
  counters: Counters;
  /** Key of `Authorization: Key …`. */
  apiKey: string;
  /** Generation time of an image, in milliseconds. */
  latencyMs: number;
  /** Base of queue URLs, without a trailing slash. */
  queueUrl: () => string;
}

function promptOf(body: unknown): string {
  if (typeof body !== 'object' || body === null) return '';
  const { prompt, multi_prompt: shots } = body as { prompt?: unknown; multi_prompt?: unknown };
  const texts = Array.isArray(shots) ? shots.map((shot: unknown) => promptOf(shot)) : [];
  return [typeof prompt === 'string' ? prompt : '', ...texts].join(' ').trim();
}

class Queue {
  readonly #options: QueueOptions;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** Adds the check of the API key to a handler. */
  authorized(handle: (exchange: Exchange) => Promise<void> | void) {
    return async (exchange: Exchange): Promise<void> => {
      if (exchange.request.headers.authorization === `Key ${this.#options.apiKey}`) {
        await handle(exchange);
        return;
      }
      this.#options.counters.unauthorized += 1;
      answerJson(exchange, { status: 401, body: { detail: refusals[401] } });
    };
  }

  #urls({ endpointId, requestId }: FalRequest) {
    const responseUrl = `${this.#options.queueUrl()}/${rootAppId(endpointId)}/requests/${requestId}`;
    return {
      request_id: requestId,
      response_url: responseUrl,
      status_url: `${responseUrl}/status`,
      cancel_url: `${responseUrl}/cancel`,
    };
  }

  /**
   * Returns the request of the URL, if it belongs to that root app; otherwise responds with 404.
   */
  #find(exchange: Exchange): FalRequest | undefined {
    const { owner, alias, requestId = '' } = exchange.params;
    const request = this.#options.store.get(requestId);
    if (request && rootAppId(request.endpointId) === `${owner}/${alias}`) return request;
    answerJson(exchange, {
      status: 404,
      body: { detail: 'Request not found', status: 'NOT_FOUND' },
    });
    return undefined;
  }

  readonly submit = async (exchange: Exchange): Promise<void> => {
    const { faults: book, counters } = this.#options;
    const endpointId = exchange.params['endpointId'] ?? '';
    const body = await readJson(exchange);
    if (!endpoints.has(endpointId)) {
      counters.submitsRefused += 1;
      const detail = `Application "${endpointId}" not found`;
      answerJson(exchange, { status: 404, body: { detail } });
      return;
    }
    const faults = book.forSubmit(endpointId, body, promptOf(body));
    const refused = book.struck(faults, 'submit') ?? book.struck(faults, 'reset-before-accept');
    if (refused) {
      counters.submitsRefused += 1;
      if (refused.name === 'submit') answerJson(exchange, refusal(refused));
      else exchange.request.socket.destroy();
      return;
    }
    const request = await this.#accept(exchange, { endpointId, body, faults });
    await this.#acknowledge(exchange, request);
  };

  async #accept(
    exchange: Exchange,
    { endpointId, body, faults }: Pick<FalRequest, 'endpointId' | 'body' | 'faults'>,
  ): Promise<FalRequest> {
    const { store, counters, latencyMs } = this.#options;
    const requestId = randomUUID();
    const slow = findFault(faults, 'slow');
    const ownMs = latencyMs * (endpoints.get(endpointId)?.latencyFactor ?? 1);
    const early = findFault(faults, 'early-webhook') !== undefined;
    const request = await store.accept({
      requestId,
      gatewayRequestId: requestId,
      endpointId,
      body: body ?? {},
      webhookUrl: exchange.url.searchParams.get('fal_webhook'),
      acceptedAtMs: Date.now(),
      latencyMs: early ? 0 : slow ? durationMs(slow.argument, ownMs) : ownMs,
      faults,
    });
    counters.submitsAccepted += 1;
    return request;
  }

  async #acknowledge(exchange: Exchange, request: FalRequest): Promise<void> {
    const { generator, faults } = this.#options;
    const running = generator.run(request);
    // A receiver that rejects the webhook must not delay the submit through all retries.
    const isEarly = faults.struck(request.faults, 'early-webhook') !== undefined;
    if (isEarly) await Promise.race([running, sleep(earlyWebhookWaitMs)]);
    const half = '{"status":"IN_QUEUE","request_id":"';
    if (faults.breakAnswer(exchange, request.faults, half)) return;
    answerJson(exchange, {
      status: 200,
      body: {
        status: 'IN_QUEUE',
        ...this.#urls(request),
        gateway_request_id: request.gatewayRequestId,
        queue_position: 0,
      },
      headers: { 'x-fal-request-id': request.requestId },
    });
  }

  #statusOf(request: FalRequest) {
    const { outcome, acceptedAtMs, startedAtMs, finishedAtMs } = request;
    const urls = this.#urls(request);
    const begun = startedAtMs !== undefined || Date.now() >= acceptedAtMs + queueMs(request);
    if (!outcome && !begun) return { status: 'IN_QUEUE', ...urls, queue_position: 0 };
    // Real models return more fields, which the gateway does not read.
    const logs: string[] = [];
    if (!outcome) return { status: 'IN_PROGRESS', ...urls, logs };
    const inferenceMs = (finishedAtMs ?? 0) - (startedAtMs ?? 0);
    return {
      status: 'COMPLETED',
      ...urls,
      logs,
      metrics: { inference_time: inferenceMs / 1000 },
      ...(outcome.error !== undefined && { error: outcome.error }),
      ...(outcome.errorType !== undefined && { error_type: outcome.errorType }),
    };
  }

  readonly status = (exchange: Exchange): void => {
    this.#options.counters.statusPolls += 1;
    const request = this.#find(exchange);
    if (!request) return;
    const fault = this.#options.faults.struck(request.faults, 'status', request.requestId);
    if (fault) {
      answerErrorPage(exchange, fault);
      return;
    }
    const body = this.#statusOf(request);
    const status = body.status === 'COMPLETED' ? 200 : 202;
    answerJson(exchange, { status, body, headers: { 'x-fal-request-id': request.requestId } });
  };

  readonly result = (exchange: Exchange): void => {
    this.#options.counters.resultFetches += 1;
    const request = this.#find(exchange);
    if (!request) return;
    const { outcome, requestId } = request;
    const headers = { 'x-fal-request-id': requestId };
    if (!outcome) {
      const body = { detail: 'Request is still in progress' };
      answerJson(exchange, { status: 400, body, headers });
      return;
    }
    const book = this.#options.faults;
    const fault = book.struck(request.faults, 'result', requestId);
    if (fault) {
      answerErrorPage(exchange, fault);
      return;
    }
    if (book.struck(request.faults, 'malformed-result', requestId)) {
      exchange.response.setHeader('x-fal-request-id', requestId);
      answerHalfJson(exchange, '{"images":[{"url":');
      return;
    }
    const { status, body } = outcome;
    answerJson(exchange, { status, body, headers: { ...outcome.headers, ...headers } });
  };

  readonly cancel = async (exchange: Exchange): Promise<void> => {
    const { counters, store, generator } = this.#options;
    counters.cancels += 1;
    const request = this.#find(exchange);
    if (!request) return;
    if (request.outcome) {
      answerJson(exchange, { status: 400, body: { status: 'ALREADY_COMPLETED' } });
      return;
    }
    if (!findFault(request.faults, 'ignore-cancel')) {
      if (await store.finish(request, platformFailure(499))) generator.notify(request);
    }
    answerJson(exchange, { status: 202, body: { status: 'CANCELLATION_REQUESTED' } });
  };
}

/** Makes the routes of the queue under this path prefix. */
export function queueRoutes(prefix: string, options: QueueOptions): Route[] {
  const queue = new Queue(options);
  const request = `^${prefix}/(?<owner>[^/]+)/(?<alias>[^/]+)/requests/(?<requestId>[^/]+)`;
  return [
    ['GET', new RegExp(`${request}/status$`), queue.authorized(queue.status)],
    ['GET', new RegExp(`${request}$`), queue.authorized(queue.result)],
    ['PUT', new RegExp(`${request}/cancel$`), queue.authorized(queue.cancel)],
    ['POST', new RegExp(`^${prefix}/(?<endpointId>.+)$`), queue.authorized(queue.submit)],
  ];
}
