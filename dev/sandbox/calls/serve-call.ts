/** Serves calls of providers that respond with the result: key, faults, record, work, response. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Counters } from '../counters.ts';
import {
  answerHalfJson,
  durationMs,
  findFault,
  firstHalf,
  retryAfterOf,
  type Fault,
  type FaultBook,
} from '../faults.ts';
import { answerJson, UnreadableRequestError, type Exchange, type Route } from '../http.ts';
import type { CallLog } from './call-log.ts';
import {
  CallRefusedError,
  type CallEndpoint,
  type Dialect,
  type Reply,
  type Work,
} from './call.ts';

/** Services that the calls of a provider share. */
export interface CallServerOptions {
  log: CallLog;
  faults: FaultBook;
  counters: Counters;
  /** Time to generate an image, in milliseconds. */
  latencyMs: number;
}

/** Accepted call without a response yet. */
interface Admitted {
  endpoint: string;
  faults: readonly Fault[];
  requestId: string;
  workMs: number;
  work: Work;
}

interface SayOptions {
  requestId?: string;
  headers?: Record<string, string>;
}

function headerOf(exchange: Exchange, name: string): string | null {
  const value = exchange.request.headers[name];
  return typeof value === 'string' ? value : null;
}

/**
 * Sends a response without a length, as the real providers do. `[[truncated-media]]` closes the
 * connection after half of the bytes.
 */
function sendReply({ request, response }: Exchange, reply: Reply, isCut: boolean): void {
  const { bytes, contentType, headers } = reply;
  response.writeHead(200, { ...headers, 'Content-Type': contentType });
  if (!isCut) {
    response.end(bytes);
    return;
  }
  response.write(firstHalf(bytes), () => request.socket.destroy());
}

class CallServer {
  readonly #options: CallServerOptions;
  readonly #dialect: Dialect;
  #inFlight = 0;

  constructor(options: CallServerOptions, dialect: Dialect) {
    this.#options = options;
    this.#dialect = dialect;
  }

  #say(
    exchange: Exchange,
    refusal: CallRefusedError,
    { requestId = this.#dialect.createRequestId(), headers = {} }: SayOptions,
  ): void {
    const body = this.#dialect.wording(refusal, requestId);
    const allHeaders = { ...this.#dialect.headers(requestId), ...headers };
    answerJson(exchange, { status: refusal.status, body, headers: allHeaders });
  }

  /** True when the call ended before it was accepted. */
  #isTurnedAway(exchange: Exchange, endpoint: string, faults: readonly Fault[]): boolean {
    const { socket } = exchange.request;
    if (this.#options.faults.struck(faults, 'reset-before-accept')) {
      socket.destroy();
      return true;
    }
    const submit = this.#options.faults.struck(faults, 'submit');
    const crowded = findFault(faults, 'concurrency');
    const isCrowded = crowded && this.#inFlight > Number(crowded.argument || 0);
    const fault = submit ?? (isCrowded && this.#options.faults.struck(faults, 'concurrency'));
    if (!fault) return false;
    const failure = submit
      ? ({ cause: 'refused', status: Number(fault.argument || 503) } as const)
      : ({ cause: 'concurrency', status: 429 } as const);
    const refusal = this.#dialect.failure({ ...failure, endpoint, type: fault.options['type'] });
    this.#say(exchange, refusal, { headers: retryAfterOf(fault) });
    return true;
  }

  /** Returns the failure of an accepted call; null if it succeeds. */
  #failureOf(endpoint: string, faults: readonly Fault[]): CallRefusedError | undefined {
    const policy = this.#options.faults.struck(faults, 'policy');
    const failed =
      policy ??
      this.#options.faults.struck(faults, 'fail') ??
      this.#options.faults.struck(faults, 'fail-result');
    if (!failed) return undefined;
    return this.#dialect.failure({
      cause: policy ? 'policy' : 'failed',
      status: Number(failed.argument || (failed.name === 'fail-result' ? 500 : 422)),
      type: failed.options['type'],
      endpoint,
    });
  }

  async #record(exchange: Exchange, endpoint: string, body: unknown): Promise<string> {
    const requestId = this.#dialect.createRequestId();
    await this.#options.log.accept({
      requestId,
      endpoint,
      acceptedAtMs: Date.now(),
      body,
      idempotencyKey: headerOf(exchange, 'idempotency-key'),
      clientRequestId:
        headerOf(exchange, 'x-request-id') ?? headerOf(exchange, 'x-client-request-id'),
    });
    this.#options.counters.submitsAccepted += 1;
    return requestId;
  }

  /**
   * Accepts or rejects a call.
   * @returns the remaining work; null if no response is sent
   */
  async #admit(exchange: Exchange, definition: CallEndpoint): Promise<Admitted | undefined> {
    const { faults: book, counters, latencyMs } = this.#options;
    const asked = await definition.read(exchange);
    const endpoint = exchange.url.pathname.slice(1);
    const faults = book.forSubmit(endpoint, asked.body, asked.prompt);
    if (this.#isTurnedAway(exchange, endpoint, faults)) {
      counters.submitsRefused += 1;
      return undefined;
    }
    const work = await asked.check();
    const requestId = await this.#record(exchange, endpoint, asked.body);
    if (exchange.request.socket.destroyed || book.breakAnswer(exchange, faults)) return undefined;
    const slow = findFault(faults, 'slow')?.argument ?? '';
    const workMs = durationMs(slow, latencyMs * definition.latencyFactor);
    return { endpoint, faults, requestId, workMs, work };
  }

  async #answer(exchange: Exchange, admitted: Admitted): Promise<void> {
    const { endpoint, faults, requestId, workMs, work } = admitted;
    const { response } = exchange;
    await sleep(workMs);
    const failure = this.#failureOf(endpoint, faults);
    if (failure) throw failure;
    if (this.#options.faults.struck(faults, 'malformed-submit')) {
      answerHalfJson(exchange, '{"created":');
      return;
    }
    const reply = await work({ requestId, faults });
    const headers = { ...this.#dialect.headers(requestId), ...reply.headers };
    const truncated = this.#options.faults.struck(faults, 'truncated-media');
    const isCut = truncated !== undefined && truncated.argument !== 'silent';
    if (!response.destroyed) sendReply(exchange, { ...reply, headers }, isCut);
  }

  #refuse(exchange: Exchange, error: unknown, requestId: string): void {
    const refusal = error instanceof UnreadableRequestError ? unreadable(error) : error;
    if (!(refusal instanceof CallRefusedError)) throw error;
    this.#say(exchange, refusal, { requestId });
  }

  /** Serves one call. */
  async serve(exchange: Exchange, definition: CallEndpoint): Promise<void> {
    const { counters } = this.#options;
    if (!this.#dialect.isAuthorized(exchange.request)) {
      counters.unauthorized += 1;
      this.#say(exchange, this.#dialect.unauthorized, {});
      return;
    }
    this.#inFlight += 1;
    try {
      const admitted = await this.#admit(exchange, definition).catch((error: unknown) => {
        this.#refuse(exchange, error, this.#dialect.createRequestId());
        counters.submitsRefused += 1;
        return undefined;
      });
      if (!admitted) return;
      await this.#answer(exchange, admitted).catch((error: unknown) =>
        this.#refuse(exchange, error, admitted.requestId),
      );
    } finally {
      this.#inFlight -= 1;
    }
  }
}

function unreadable({ status, message }: UnreadableRequestError): CallRefusedError {
  return new CallRefusedError(status, { code: 'invalid_request', message });
}

/** Makes the routes of a provider's endpoints. */
export function callRoutes(
  endpoints: readonly CallEndpoint[],
  options: CallServerOptions,
  dialect: Dialect,
): Route[] {
  const server = new CallServer(options, dialect);
  return endpoints.map((definition): Route => {
    return ['POST', definition.path, (exchange) => server.serve(exchange, definition)];
  });
}
