/** fal's queue protocol: submits requests, returns status and result, and cancels. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Counters } from '../counters.ts';
import {
  sendErrorPage,
  sendHalfJson,
  parseDurationMs,
  findFault,
  type FaultBook,
} from '../faults.ts';
import { sendJson, readJson, type Exchange, type Route } from '../http.ts';
import { rootAppId } from './endpoint.ts';
import { endpoints } from './endpoints/registry.ts';
import { queueMs, type Generator } from './generation.ts';
import { platformFailure, buildRejection, rejectionMessages } from './outcome.ts';
import type { FalRequest, RequestStore } from './requests.ts';

/** How long the fault `early-webhook` delays the response to a submitted request, so that its webhook arrives first. */
const earlyWebhookWaitMs = 2000;

/** Options and services of the queue. */
export interface QueueOptions {
  store: RequestStore;
  generator: Generator;
  faults: FaultBook;
  counters: Counters;
  /** API key that requests must send as `Authorization: Key …`. */
  apiKey: string;
  /** Generation time of an image in milliseconds. */
  latencyMs: number;
  /** Returns the base of queue URLs, without a trailing slash. */
  queueUrl: () => string;
}

function readPrompt(body: unknown): string {
  if (typeof body !== 'object' || body === null) return '';
  const { prompt, multi_prompt: shots } = body as { prompt?: unknown; multi_prompt?: unknown };
  const texts = Array.isArray(shots) ? shots.map((shot: unknown) => readPrompt(shot)) : [];
  return [typeof prompt === 'string' ? prompt : '', ...texts].join(' ').trim();
}

class Queue {
  readonly #options: QueueOptions;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** Wraps a handler so that it responds with 401 to a wrong API key. */
  authorized(handle: (exchange: Exchange) => Promise<void> | void) {
    return async (exchange: Exchange): Promise<void> => {
      if (exchange.request.headers.authorization === `Key ${this.#options.apiKey}`) {
        await handle(exchange);
        return;
      }
      this.#options.counters.unauthorized += 1;
      sendJson(exchange, { status: 401, body: { detail: rejectionMessages[401] } });
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

  /** Finds the request in the URL; responds with 404 if it is unknown or belongs to another app. */
  #find(exchange: Exchange): FalRequest | undefined {
    const { owner, alias, requestId = '' } = exchange.params;
    const request = this.#options.store.get(requestId);
    if (request && rootAppId(request.endpointId) === `${owner}/${alias}`) return request;
    sendJson(exchange, {
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
      counters.submitsRejected += 1;
      const detail = `Application "${endpointId}" not found`;
      sendJson(exchange, { status: 404, body: { detail } });
      return;
    }
    const faults = book.forSubmit(endpointId, body, readPrompt(body));
    const fault = book.takeFault(faults, 'submit') ?? book.takeFault(faults, 'reset-before-accept');
    if (fault) {
      counters.submitsRejected += 1;
      if (fault.name === 'submit') sendJson(exchange, buildRejection(fault));
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
      latencyMs: early ? 0 : slow ? parseDurationMs(slow.argument, ownMs) : ownMs,
      faults,
    });
    counters.submitsAccepted += 1;
    return request;
  }

  async #acknowledge(exchange: Exchange, request: FalRequest): Promise<void> {
    const { generator, faults } = this.#options;
    const running = generator.run(request);
    // A receiver that rejects the webhook must not delay the response through all retries.
    const isEarly = faults.takeFault(request.faults, 'early-webhook') !== undefined;
    if (isEarly) await Promise.race([running, sleep(earlyWebhookWaitMs)]);
    const half = '{"status":"IN_QUEUE","request_id":"';
    if (faults.breakResponse(exchange, request.faults, half)) return;
    sendJson(exchange, {
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
    // Real models return log lines here, which the gateway does not read.
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
    const fault = this.#options.faults.takeFault(request.faults, 'status', request.requestId);
    if (fault) {
      sendErrorPage(exchange, fault);
      return;
    }
    const body = this.#statusOf(request);
    const status = body.status === 'COMPLETED' ? 200 : 202;
    sendJson(exchange, { status, body, headers: { 'x-fal-request-id': request.requestId } });
  };

  readonly result = (exchange: Exchange): void => {
    this.#options.counters.resultFetches += 1;
    const request = this.#find(exchange);
    if (!request) return;
    const { outcome, requestId } = request;
    const headers = { 'x-fal-request-id': requestId };
    if (!outcome) {
      const body = { detail: 'Request is still in progress' };
      sendJson(exchange, { status: 400, body, headers });
      return;
    }
    const book = this.#options.faults;
    const fault = book.takeFault(request.faults, 'result', requestId);
    if (fault) {
      sendErrorPage(exchange, fault);
      return;
    }
    if (book.takeFault(request.faults, 'malformed-result', requestId)) {
      exchange.response.setHeader('x-fal-request-id', requestId);
      sendHalfJson(exchange, '{"images":[{"url":');
      return;
    }
    const { status, body } = outcome;
    sendJson(exchange, { status, body, headers: { ...outcome.headers, ...headers } });
  };

  readonly cancel = async (exchange: Exchange): Promise<void> => {
    const { counters, store, generator } = this.#options;
    counters.cancels += 1;
    const request = this.#find(exchange);
    if (!request) return;
    if (request.outcome) {
      sendJson(exchange, { status: 400, body: { status: 'ALREADY_COMPLETED' } });
      return;
    }
    if (!findFault(request.faults, 'ignore-cancel')) {
      if (await store.finish(request, platformFailure(499))) generator.notify(request);
    }
    sendJson(exchange, { status: 202, body: { status: 'CANCELLATION_REQUESTED' } });
  };
}

/** Creates the routes of the queue under a path prefix. */
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
