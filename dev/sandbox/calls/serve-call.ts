/** Handles calls to providers that respond with the result: checks the key, applies faults, logs the call and responds. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Counters } from '../counters.ts';
import {
  sendHalfJson,
  parseDurationMs,
  findFault,
  firstHalf,
  retryAfterHeader,
  type Fault,
  type FaultBook,
} from '../faults.ts';
import { sendJson, UnreadableRequestError, type Exchange, type Route } from '../http.ts';
import type { CallLog } from './call-log.ts';
import {
  CallRejectedError,
  type CallEndpoint,
  type Dialect,
  type Reply,
  type Work,
} from './call.ts';

/** Services shared by all calls to a provider. */
export interface CallServerOptions {
  log: CallLog;
  faults: FaultBook;
  counters: Counters;
  /** Time to generate an image, in milliseconds. */
  latencyMs: number;
}

/** Accepted call that has no response yet. */
interface AcceptedRequest {
  endpoint: string;
  faults: readonly Fault[];
  requestId: string;
  workMs: number;
  work: Work;
}

interface ErrorOptions {
  requestId?: string;
  headers?: Record<string, string>;
}

function readHeader(exchange: Exchange, name: string): string | null {
  const value = exchange.request.headers[name];
  return typeof value === 'string' ? value : null;
}

/**
 * Sends a chunked response, as real providers do. If `isCut` is true, closes the connection after half of the bytes.
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

  #sendError(
    exchange: Exchange,
    rejection: CallRejectedError,
    { requestId = this.#dialect.createRequestId(), headers = {} }: ErrorOptions,
  ): void {
    const body = this.#dialect.errorBody(rejection, requestId);
    const allHeaders = { ...this.#dialect.headers(requestId), ...headers };
    sendJson(exchange, { status: rejection.status, body, headers: allHeaders });
  }

  /** Applies the faults that prevent acceptance; returns true if one occurred. */
  #isRejectedByFault(exchange: Exchange, endpoint: string, faults: readonly Fault[]): boolean {
    const { socket } = exchange.request;
    if (this.#options.faults.takeFault(faults, 'reset-before-accept')) {
      socket.destroy();
      return true;
    }
    const submit = this.#options.faults.takeFault(faults, 'submit');
    const concurrency = findFault(faults, 'concurrency');
    const isTooConcurrent = concurrency && this.#inFlight > Number(concurrency.argument || 0);
    const fault =
      submit ?? (isTooConcurrent && this.#options.faults.takeFault(faults, 'concurrency'));
    if (!fault) return false;
    const failure = submit
      ? ({ cause: 'rejected', status: Number(fault.argument || 503) } as const)
      : ({ cause: 'concurrency', status: 429 } as const);
    const rejection = this.#dialect.failure({ ...failure, endpoint, type: fault.options['type'] });
    this.#sendError(exchange, rejection, { headers: retryAfterHeader(fault) });
    return true;
  }

  /** Returns the error of an accepted call that a fault makes fail, otherwise undefined. */
  #findFailure(endpoint: string, faults: readonly Fault[]): CallRejectedError | undefined {
    const policy = this.#options.faults.takeFault(faults, 'policy');
    const failed =
      policy ??
      this.#options.faults.takeFault(faults, 'fail') ??
      this.#options.faults.takeFault(faults, 'fail-result');
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
      idempotencyKey: readHeader(exchange, 'idempotency-key'),
      clientRequestId:
        readHeader(exchange, 'x-request-id') ?? readHeader(exchange, 'x-client-request-id'),
    });
    this.#options.counters.submitsAccepted += 1;
    return requestId;
  }

  /**
   * Accepts or rejects a call.
   * @returns the accepted call; undefined if no further response may be sent
   */
  async #accept(
    exchange: Exchange,
    definition: CallEndpoint,
  ): Promise<AcceptedRequest | undefined> {
    const { faults: book, counters, latencyMs } = this.#options;
    const call = await definition.read(exchange);
    const endpoint = exchange.url.pathname.slice(1);
    const faults = book.forSubmit(endpoint, call.body, call.prompt);
    if (this.#isRejectedByFault(exchange, endpoint, faults)) {
      counters.submitsRejected += 1;
      return undefined;
    }
    const work = await call.check();
    const requestId = await this.#record(exchange, endpoint, call.body);
    if (exchange.request.socket.destroyed || book.breakResponse(exchange, faults)) return undefined;
    const slow = findFault(faults, 'slow')?.argument ?? '';
    const workMs = parseDurationMs(slow, latencyMs * definition.latencyFactor);
    return { endpoint, faults, requestId, workMs, work };
  }

  async #respond(exchange: Exchange, accepted: AcceptedRequest): Promise<void> {
    const { endpoint, faults, requestId, workMs, work } = accepted;
    const { response } = exchange;
    await sleep(workMs);
    const failure = this.#findFailure(endpoint, faults);
    if (failure) throw failure;
    if (this.#options.faults.takeFault(faults, 'malformed-submit')) {
      sendHalfJson(exchange, '{"created":');
      return;
    }
    const reply = await work({ requestId, faults });
    const headers = { ...this.#dialect.headers(requestId), ...reply.headers };
    const truncated = this.#options.faults.takeFault(faults, 'truncated-media');
    const isCut = truncated !== undefined && truncated.argument !== 'silent';
    if (!response.destroyed) sendReply(exchange, { ...reply, headers }, isCut);
  }

  #respondToError(exchange: Exchange, error: unknown, requestId: string): void {
    const rejection = error instanceof UnreadableRequestError ? toRejection(error) : error;
    if (!(rejection instanceof CallRejectedError)) throw error;
    this.#sendError(exchange, rejection, { requestId });
  }

  /** Handles a call. */
  async serve(exchange: Exchange, definition: CallEndpoint): Promise<void> {
    const { counters } = this.#options;
    if (!this.#dialect.isAuthorized(exchange.request)) {
      counters.unauthorized += 1;
      this.#sendError(exchange, this.#dialect.unauthorized, {});
      return;
    }
    this.#inFlight += 1;
    try {
      const accepted = await this.#accept(exchange, definition).catch((error: unknown) => {
        this.#respondToError(exchange, error, this.#dialect.createRequestId());
        counters.submitsRejected += 1;
        return undefined;
      });
      if (!accepted) return;
      await this.#respond(exchange, accepted).catch((error: unknown) =>
        this.#respondToError(exchange, error, accepted.requestId),
      );
    } finally {
      this.#inFlight -= 1;
    }
  }
}

function toRejection({ status, message }: UnreadableRequestError): CallRejectedError {
  return new CallRejectedError(status, { code: 'invalid_request', message });
}

/** Creates the routes for a provider's endpoints. */
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
