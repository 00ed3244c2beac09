/** Bulk jobs: thousands of requests with one budget (docs/bulk.md). */
import type {
  CallOptions,
  Capability,
  Input,
  ItemsDecision,
  Result,
  SignalOption,
  WaitOptions,
} from './capabilities.ts';
import { idempotencyHeader, parseBody, type Connection } from './connection.ts';
import { StudioError } from './errors.ts';
import { readLines } from './event-stream.ts';
import type { components, paths } from './schema.ts';
import { sleep } from './transport.ts';

type Schemas = components['schemas'];

/** Capability or chat endpoint that an item can use. */
type ItemUse = NonNullable<Schemas['StartBulkRequest']['items'][number]['use']>;
type ChatUse = Exclude<ItemUse, Capability>;
type ChatOperation<U extends ChatUse> = paths[`/api/v1/${U}`]['post'];

type ItemInput<U extends ItemUse> = U extends Capability
  ? Input<U>
  : U extends ChatUse
    ? ChatOperation<U>['requestBody']['content']['application/json']
    : never;
type ItemResult<U extends ItemUse> = U extends Capability
  ? Result<U>
  : U extends ChatUse
    ? ChatOperation<U>['responses'][200]['content']['application/json']
    : never;

/** Item of a bulk job: a request to a capability or to a chat endpoint. */
export type BulkItem<C extends ItemUse = ItemUse> = C extends ItemUse
  ? {
      /** Id of your own, unique in the bulk job; its result contains it. */
      id?: string;
      use: C;
      body: ItemInput<C>;
    }
  : never;

/** Limits, webhook and metadata of a bulk job. */
export type BulkOptions = Omit<Schemas['StartBulkRequest'], 'items' | 'defaults'>;

/** Bulk job. `invalidItems` are the items that `skipInvalid` left out. */
export type BulkJob = Schemas['BulkJob'] & {
  invalidItems?: Schemas['BulkEstimate']['invalidItems'];
};

/** Result of an item; `data` is set if its status is `completed`. */
export type BulkResult<C extends ItemUse = ItemUse> = Omit<
  Schemas['BulkResult'],
  'status' | 'data'
> &
  (
    | { status: 'completed'; data: ItemResult<C> | null }
    | { status: Exclude<Schemas['BulkResult']['status'], 'completed'>; data: null }
  );

/** Items of a bulk job. All of them are sent before the gateway starts any. */
export type BulkItems<Item extends BulkItem> = Iterable<Item> | AsyncIterable<Item>;

/** Reference to a bulk job; `C` determines the type of its results. */
export interface BulkTicket<C extends ItemUse = ItemUse> {
  bulkId: string;
  /** Endpoints of the items, only for the type checker: the field is never set at run time. */
  readonly capability?: C;
}

const path = '/api/v1/studio/bulk';
/** Maximum time in seconds that one poll waits for the end of a bulk job. */
const pollSeconds = 20;
/** Timeout of a request with items in milliseconds: all of them are checked before the response. */
const itemsTimeoutMs = 600_000;
const reconnectWaitMs = 500;
/** Time in seconds between two reads of new results of a running bulk job. */
const resultsPollSeconds = 1;

/** Methods for bulk jobs. They throw the same errors as those of `StudioGateway`. */
export class BulkJobs {
  readonly #connection: Connection;
  readonly #retries: number;
  readonly #timeoutMs: number;

  constructor(connection: Connection, options: { retries: number; timeoutMs: number }) {
    this.#connection = connection;
    this.#retries = options.retries;
    this.#timeoutMs = options.timeoutMs;
  }

  /**
   * Starts a bulk job, and yields the results of its items as they end. If the bulk job was stopped
   * or canceled, then throws a `StudioError` with the reason as its code and the bulk job as its
   * body. The results include failed items; an item that is retried meanwhile has a further result.
   */
  async *run<const Item extends BulkItem>(
    items: BulkItems<Item>,
    options: BulkOptions & CallOptions & WaitOptions = {},
  ): AsyncGenerator<BulkResult<Item['use']>, BulkJob, undefined> {
    const { timeoutMs = Infinity, ...startOptions } = options;
    const { signal } = options;
    const started = await this.start(items, startOptions);
    const timeoutAtMs = performance.now() + timeoutMs;
    let cursor: string | undefined;
    for (;;) {
      const remainingSeconds = Math.max(0, (timeoutAtMs - performance.now()) / 1000);
      const waitSeconds = Math.min(resultsPollSeconds, remainingSeconds);
      const bulk = await this.#read(started.bulkId, waitSeconds, signal);
      for await (const result of this.results<Item['use']>(started, { signal, cursor })) {
        ({ cursor } = result);
        yield result;
      }
      if (bulk.status === 'completed') return bulk;
      if (bulk.done) {
        const code = bulk.stopReason ?? 'CANCELED';
        const message = `The bulk job ${bulk.bulkId} was ${bulk.status}.`;
        throw new StudioError(code, message, { body: bulk });
      }
      if (performance.now() >= timeoutAtMs) throw timeoutError(bulk, timeoutMs);
    }
  }

  /** Starts a bulk job, and returns once all items are checked and accepted. */
  async start<const Item extends BulkItem>(
    items: BulkItems<Item>,
    { signal, idempotencyKey, ...options }: BulkOptions & CallOptions = {},
  ): Promise<BulkJob & BulkTicket<Item['use']>> {
    const headers = idempotencyHeader(idempotencyKey);
    return this.#sendItems(path, await buildLines(items, options), { signal, headers });
  }

  /** Checks and prices all items. Starts nothing. */
  async estimate(
    items: BulkItems<BulkItem>,
    { signal, ...options }: BulkOptions & SignalOption = {},
  ): Promise<Schemas['BulkEstimate']> {
    return this.#sendItems(`${path}/estimate`, await buildLines(items, options), { signal });
  }

  /** Returns the current state of a bulk job. */
  get({ bulkId }: BulkTicket, { signal }: SignalOption = {}): Promise<BulkJob> {
    return this.#read(bulkId, 0, signal);
  }

  /** Waits until a bulk job is completed, stopped or canceled, and returns it. */
  async wait(
    { bulkId }: BulkTicket,
    { signal, timeoutMs = Infinity }: WaitOptions = {},
  ): Promise<BulkJob> {
    const timeoutAtMs = performance.now() + timeoutMs;
    for (;;) {
      const remainingSeconds = Math.max(0, (timeoutAtMs - performance.now()) / 1000);
      const bulk = await this.#read(bulkId, Math.min(pollSeconds, remainingSeconds), signal);
      if (bulk.done) return bulk;
      if (performance.now() >= timeoutAtMs) throw timeoutError(bulk, timeoutMs);
    }
  }

  /**
   * Yields the results of the items that have ended, in the order of their ends. With the `cursor` of
   * a result, only those after it.
   */
  async *results<C extends ItemUse>(
    { bulkId }: BulkTicket<C>,
    { signal, cursor = '0' }: SignalOption & { cursor?: string | undefined } = {},
  ): AsyncGenerator<BulkResult<C>, void, undefined> {
    let last = cursor;
    for (let failures = 0; ; failures += 1) {
      try {
        const url = `${bulkPath(bulkId)}/results?cursor=${encodeURIComponent(last)}`;
        const response = await this.#connection.get(url, { signal });
        for await (const line of readLines(response, signal)) {
          const result: BulkResult<C> = JSON.parse(line);
          last = result.cursor;
          failures = 0;
          yield result;
        }
        return;
      } catch (error) {
        signal?.throwIfAborted();
        const isBroken = error instanceof StudioError && error.code === 'CONNECTION_FAILED';
        if (!isBroken || failures >= this.#retries) throw error;
      }
      await sleep(reconnectWaitMs, signal);
    }
  }

  /** Cancels the waiting items, and with `items: 'all'` also the running jobs. */
  cancel(
    bulk: BulkTicket,
    { signal, ...body }: Schemas['CancelBulkRequest'] & SignalOption = {},
  ): Promise<BulkJob> {
    return this.#command(bulk, 'cancel', { body, signal });
  }

  /** Pauses a bulk job: no further item starts until it is resumed. */
  pause(bulk: BulkTicket, { signal }: SignalOption = {}): Promise<BulkJob> {
    return this.#command(bulk, 'pause', { body: {}, signal });
  }

  /** Resumes a paused or stopped bulk job, with other limits if they are set. */
  resume(
    bulk: BulkTicket,
    { signal, ...body }: Schemas['ResumeBulkRequest'] & SignalOption = {},
  ): Promise<BulkJob> {
    return this.#command(bulk, 'resume', { body, signal });
  }

  /** Starts the failed items once more as new jobs. */
  retry(bulk: BulkTicket, { signal }: SignalOption = {}): Promise<BulkJob> {
    return this.#command(bulk, 'retry', { body: {}, signal });
  }

  /**
   * Decides about items that wait, and returns a verdict for each. While `remaining` and `decided` are
   * above 0, send the same decision again.
   */
  decide(
    bulk: BulkTicket,
    { signal, ...body }: ItemsDecision & SignalOption,
  ): Promise<Schemas['BulkDecisions']> {
    return this.#command(bulk, 'decisions', { body, signal });
  }

  async #command<Data = BulkJob>(
    { bulkId }: BulkTicket,
    name: 'cancel' | 'pause' | 'resume' | 'retry' | 'decisions',
    { body, signal }: SignalOption & { body: object },
  ): Promise<Data> {
    const url = `${bulkPath(bulkId)}/${name}`;
    return readData(await this.#connection.post(url, body, { signal }));
  }

  async #sendItems<Data>(
    to: string,
    body: Blob,
    { headers, signal }: SignalOption & { headers?: Record<string, string> },
  ): Promise<Data> {
    const response = await this.#connection.send({
      url: `${this.#connection.baseUrl}${to}`,
      method: 'POST',
      headers: { 'Content-Type': body.type, ...headers },
      body,
      signal,
      timeoutMs: itemsTimeoutMs,
    });
    return readData(response);
  }

  async #read(bulkId: string, waitSeconds: number, signal?: AbortSignal): Promise<BulkJob> {
    const timeoutMs = this.#timeoutMs + waitSeconds * 1000;
    const url = `${bulkPath(bulkId)}?wait=${waitSeconds}`;
    return readData(await this.#connection.get(url, { signal, timeoutMs }));
  }
}

const timeoutError = (bulk: BulkJob, timeoutMs: number): StudioError =>
  new StudioError('TIMEOUT', `The bulk job ${bulk.bulkId} did not end within ${timeoutMs} ms.`, {
    body: bulk,
  });

const bulkPath = (bulkId: string): string => `${path}/${encodeURIComponent(bulkId)}`;

const readData = async <Data>(response: Response): Promise<Data> =>
  (await parseBody<{ data: Data }>(response)).data;

/** Builds the NDJSON body. It is kept as a whole, so that a retry can send it again. */
async function buildLines(items: BulkItems<BulkItem>, options: BulkOptions): Promise<Blob> {
  const lines = [`${JSON.stringify({ options })}\n`];
  for await (const item of items) lines.push(`${JSON.stringify(item)}\n`);
  return new Blob(lines, { type: 'application/x-ndjson' });
}
