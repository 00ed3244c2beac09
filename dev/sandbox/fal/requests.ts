/** Stores accepted requests in memory and in a durable log, from which they are restored at startup. */
import { join } from 'node:path';
import { z } from 'zod';
import { assert } from '../../../domain/errors.ts';
import { faultSchema } from '../faults.ts';
import { compactLog, DurableLog, replayLog } from '../log.ts';
import { outcomeSchema, type Outcome } from './outcome.ts';

const acceptedRequest = z.object({
  requestId: z.string(),
  gatewayRequestId: z.string(),
  endpointId: z.string(),
  body: z.unknown(),
  webhookUrl: z.string().nullable(),
  acceptedAtMs: z.number(),
  latencyMs: z.number(),
  faults: z.array(faultSchema),
});

/** Accepted request as it is logged. Times are in milliseconds since 1970. */
export type AcceptedRequest = z.infer<typeof acceptedRequest>;

/** Accepted request and its progress. */
export interface FalRequest extends AcceptedRequest {
  startedAtMs?: number;
  finishedAtMs?: number;
  outcome?: Outcome;
  /** True if no webhook needs to be sent any more. */
  notified: boolean;
  /** Length of the body as JSON, which counts towards the memory limit. */
  bodyLength: number;
}

const logEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('accepted'), request: acceptedRequest }),
  z.object({
    type: z.literal('finished'),
    requestId: z.string(),
    startedAtMs: z.number(),
    finishedAtMs: z.number(),
    outcome: outcomeSchema,
  }),
  z.object({ type: z.literal('notified'), requestId: z.string() }),
]);
type LogEvent = z.infer<typeof logEvent>;

interface RequestStoreOptions {
  dataDir: string;
  fsync: boolean;
  /** Maximum number of finished requests in memory. */
  finishedMax?: number;
}

/** Maximum total length of all bodies in memory as JSON, in characters. */
const bodiesLengthMax = 256 * 1024 * 1024;
/** At startup, the log is compacted if it has more than this many times the lines that are needed. */
const compactionFactor = 2;
const compactionLinesMin = 10_000;

/** Requests in memory, limited in number. Every change is also logged. */
export class RequestStore {
  readonly #requests = new Map<string, FalRequest>();
  readonly #finishedMax: number;
  #finished: string[] = [];
  #bodiesLength = 0;
  #log: DurableLog | undefined;

  private constructor(finishedMax: number) {
    this.#finishedMax = finishedMax;
  }

  /** Opens the log in a directory and reads its requests; creates it if it is missing. */
  static async open(options: RequestStoreOptions): Promise<RequestStore> {
    const { dataDir, fsync, finishedMax = 50_000 } = options;
    const store = new RequestStore(finishedMax);
    const path = join(dataDir, 'fal-requests.jsonl');
    const lines = await replayLog(path, (event) => store.#apply(logEvent.parse(event)));
    const needed = [...store.#events()];
    if (lines > compactionLinesMin && lines > compactionFactor * needed.length) {
      await compactLog(path, needed);
    }
    store.#log = await DurableLog.open({ path, fsync });
    return store;
  }

  #apply(event: LogEvent): void {
    switch (event.type) {
      case 'accepted':
        this.#add(event.request);
        break;
      case 'finished': {
        const request = this.#requests.get(event.requestId);
        // If both a cancellation and a completion are logged, the first one counts.
        if (request && !request.outcome) this.#finish(request, event);
        break;
      }
      case 'notified': {
        const request = this.#requests.get(event.requestId);
        if (request) request.notified = true;
        break;
      }
    }
  }

  *#events(): Generator<LogEvent> {
    for (const request of this.#requests.values()) {
      const { startedAtMs, finishedAtMs, outcome, notified, bodyLength: _, ...accepted } = request;
      const { requestId } = request;
      yield { type: 'accepted', request: accepted };
      if (!outcome) continue;
      yield {
        type: 'finished',
        requestId,
        startedAtMs: startedAtMs ?? 0,
        finishedAtMs: finishedAtMs ?? 0,
        outcome,
      };
      if (notified) yield { type: 'notified', requestId };
    }
  }

  #add(accepted: AcceptedRequest): FalRequest {
    const bodyLength = JSON.stringify(accepted.body)?.length ?? 0;
    const request = { ...accepted, notified: accepted.webhookUrl === null, bodyLength };
    this.#requests.set(request.requestId, request);
    this.#bodiesLength += bodyLength;
    return request;
  }

  #finish(
    request: FalRequest,
    end: { startedAtMs: number; finishedAtMs: number; outcome: Outcome },
  ): void {
    request.startedAtMs = end.startedAtMs;
    request.finishedAtMs = end.finishedAtMs;
    request.outcome = end.outcome;
    this.#finished.push(request.requestId);
    this.#evict();
  }

  #evict(): void {
    let evicted = 0;
    while (
      this.#finished.length - evicted > this.#finishedMax ||
      (this.#bodiesLength > bodiesLengthMax && evicted < this.#finished.length)
    ) {
      const requestId = this.#finished[evicted] ?? '';
      evicted += 1;
      this.#bodiesLength -= this.#requests.get(requestId)?.bodyLength ?? 0;
      this.#requests.delete(requestId);
    }
    if (evicted > 0) this.#finished = this.#finished.slice(evicted);
  }

  async #append(event: LogEvent): Promise<void> {
    assert(this.#log, 'the request store is not open');
    await this.#log.append(event);
  }

  /** Records an accepted request, and returns it when the record is on disk. */
  async accept(accepted: AcceptedRequest): Promise<FalRequest> {
    await this.#append({ type: 'accepted', request: accepted });
    return this.#add(accepted);
  }

  /**
   * Ends a request, unless it has already ended.
   * @returns true when the end is on disk; false if the request had already ended
   */
  async finish(request: FalRequest, outcome: Outcome): Promise<boolean> {
    if (request.outcome) return false;
    const finishedAtMs = Date.now();
    const end = { startedAtMs: request.startedAtMs ?? finishedAtMs, finishedAtMs, outcome };
    this.#finish(request, end);
    await this.#append({ type: 'finished', requestId: request.requestId, ...end });
    return true;
  }

  /** Records that no webhook needs to be sent any more. */
  async markNotified(request: FalRequest): Promise<void> {
    request.notified = true;
    await this.#append({ type: 'notified', requestId: request.requestId });
  }

  /** Returns the request with this id, unless it was evicted. */
  get(requestId: string): FalRequest | undefined {
    return this.#requests.get(requestId);
  }

  /** Returns the requests in memory, oldest first. */
  all(): IterableIterator<FalRequest> {
    return this.#requests.values();
  }

  /** Waits for pending writes, and closes the log. */
  async close(): Promise<void> {
    await this.#log?.close();
  }
}
