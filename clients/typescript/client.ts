/**
 * Client of the API: methods for jobs, chats, files and lists, typed from the OpenAPI description.
 */
import createClient, { type Client } from 'openapi-fetch';
import type {
  Capability,
  CallOptions,
  CompletedJob,
  Estimate,
  Input,
  Job,
  JobTicket,
  Result,
  SignalOption,
  WaitOptions,
} from './capabilities.ts';
import type { ChatAnswer, ChatEvent, ChatRequest } from './chat.ts';
import { connect, keyHeader, parseBody, type Connection } from './connection.ts';
import { makeError, StudioError, withJob } from './errors.ts';
import { eventData } from './event-stream.ts';
import {
  listItems,
  type FileFilter,
  type Items,
  type JobFilter,
  type StoredFile,
  type UsageFilter,
  type UsageRecord,
} from './lists.ts';
import type { paths } from './schema.ts';
import { attemptTimeoutMs, sleep, type GatewayOptions } from './transport.ts';
import { uploadFile, type UploadedFile, type UploadOptions } from './uploads.ts';

/** Longest time for which the service holds a poll, in seconds. */
const pollSeconds = 20;
/** Time limit of a chat in milliseconds, because a model may take minutes. */
const chatTimeoutMs = 600_000;
const reconnectWaitMs = 500;

/**
 * Client of the API (README.md). Every method throws `StudioError`, or the reason of its aborted
 * signal.
 */
export class StudioGateway {
  /**
   * Typed calls of any endpoint by its path (openapi-fetch), with the same key, retries and errors.
   */
  readonly api: Client<paths>;
  readonly #connection: Connection;
  readonly #retries: number;
  readonly #timeoutMs: number;

  constructor(options: GatewayOptions) {
    const connection = connect(options);
    this.#connection = connection;
    this.#retries = options.retries ?? 2;
    this.#timeoutMs = options.timeoutMs ?? attemptTimeoutMs;
    this.api = createClient<paths>({
      baseUrl: connection.baseUrl,
      fetch: async (request) =>
        connection.send({
          url: request.url,
          method: request.method,
          headers: Object.fromEntries(request.headers),
          ...(request.body && { body: await request.text() }),
          signal: request.signal,
        }),
    });
  }

  /**
   * Submits a job, waits for its end, and returns its result. If the job fails or is canceled, a
   * `StudioError` with its code and `jobId` is thrown.
   */
  async run<C extends Capability>(
    capability: C,
    input: Input<C>,
    options: CallOptions & WaitOptions = {},
  ): Promise<Result<C>> {
    const job = await this.submit(capability, input, options);
    return (await this.wait(job, options)).result;
  }

  /** Starts a job. Its credits are reserved when the method returns. */
  async submit<C extends Capability>(
    capability: C,
    input: Input<C>,
    { signal, idempotencyKey }: CallOptions = {},
  ): Promise<JobTicket<C>> {
    const response = await this.#connection.post(`/api/v1/studio/${capability}`, input, {
      signal,
      headers: { Prefer: 'respond-async', ...keyHeader(idempotencyKey) },
    });
    // If the request is repeated after the job has ended, the body is the result, and only the
    // header has the id.
    const jobId = response.headers.get('x-job-id');
    if (jobId === null) throw new StudioError('JOB_LOST', 'The response has no X-Job-Id.');
    return { jobId };
  }

  /** Estimates the credits that `submit` would reserve, item by item. Nothing is started. */
  async estimate<C extends Capability>(
    capability: C,
    input: Input<C>,
    { signal }: SignalOption = {},
  ): Promise<Estimate> {
    const response = await this.#connection.post(`/api/v1/studio/${capability}/estimate`, input, {
      signal,
    });
    return (await parseBody<{ data: Estimate }>(response)).data;
  }

  /** Waits for the end of a job, and returns the completed job. Throws the same errors as `run`. */
  async wait<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal, timeoutMs = Infinity }: WaitOptions = {},
  ): Promise<CompletedJob<C>> {
    const endsAtMs = performance.now() + timeoutMs;
    for (;;) {
      const leftSeconds = Math.max(0, (endsAtMs - performance.now()) / 1000);
      const job = await this.#readJob<C>(jobId, Math.min(pollSeconds, leftSeconds), signal);
      if (job.error) throw new StudioError(job.error.code, job.error.message, { jobId, body: job });
      if (job.result) return { ...job, result: job.result };
      if (job.done) throw new StudioError('JOB_LOST', 'The job has no result.', { jobId });
      if (performance.now() >= endsAtMs) {
        const message = `The job has not ended within ${timeoutMs} ms; it continues.`;
        throw new StudioError('TIMEOUT', message, { jobId });
      }
    }
  }

  /** Returns the current state of a job. */
  job<C extends Capability>(job: JobTicket<C>, options: SignalOption = {}): Promise<Job<C>> {
    return this.#readJob(job.jobId, 0, options.signal);
  }

  /** Yields the job after each change. The last one has ended: completed, failed or canceled. */
  async *events<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal }: SignalOption = {},
  ): AsyncGenerator<Job<C>, void, undefined> {
    for (let broken = 0; ; broken += 1) {
      try {
        const response = await this.#connection.get(`${jobPath(jobId)}/events`, { signal });
        for await (const data of eventData(response, signal)) {
          const job: Job<C> = JSON.parse(data);
          broken = 0;
          yield job;
          if (job.done) return;
        }
      } catch (error) {
        signal?.throwIfAborted();
        const isBroken = error instanceof StudioError && error.code === 'CONNECTION_FAILED';
        if (!isBroken || broken >= this.#retries) throw error;
      }
      // The stream ended before the job. A new stream begins with the current state.
      await sleep(reconnectWaitMs, signal);
    }
  }

  /**
   * Requests the cancellation of a job, and returns its state after that: canceled, or still
   * running if the provider has not decided.
   */
  async cancel<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal }: SignalOption = {},
  ): Promise<Job<C>> {
    const response = await this.#connection.post(`${jobPath(jobId)}/cancel`, undefined, { signal });
    return (await parseBody<{ data: Job<C> }>(response)).data;
  }

  /** Lists the jobs of the organization, newest first; pages are read as needed. */
  jobs(filter: JobFilter = {}, { signal }: SignalOption = {}): Items<Job> {
    return listItems(this.#connection, '/api/v1/studio/jobs', { filter, signal });
  }

  /** Lists the usage records of the organization, newest first; pages are read as needed. */
  usage(filter: UsageFilter = {}, { signal }: SignalOption = {}): Items<UsageRecord> {
    return listItems(this.#connection, '/api/v1/usage', { filter, signal });
  }

  /** Lists the stored files of the organization, newest first; pages are read as needed. */
  files(filter: FileFilter = {}, { signal }: SignalOption = {}): Items<StoredFile> {
    return listItems(this.#connection, '/api/v1/storage/files', { filter, signal });
  }

  /** Sends a chat, and returns the complete answer. */
  async chat(request: ChatRequest, options: CallOptions = {}): Promise<ChatAnswer> {
    const response = await this.#connection.post('/api/v1/chat', request, {
      signal: options.signal,
      headers: keyHeader(options.idempotencyKey),
      timeoutMs: chatTimeoutMs,
    });
    return parseBody(response);
  }

  /**
   * Sends a chat, and yields its answer in parts. If the answer breaks off, an error is thrown
   * after the received parts.
   */
  async *chatStream(
    request: ChatRequest,
    options: CallOptions = {},
  ): AsyncGenerator<ChatEvent, void, undefined> {
    const response = await this.#connection.post(
      '/api/v1/chat',
      { ...request, stream: true },
      {
        signal: options.signal,
        headers: keyHeader(options.idempotencyKey),
        timeoutMs: chatTimeoutMs,
      },
    );
    for await (const data of eventData(response, options.signal)) {
      if (data === '[DONE]') return;
      const event: ChatEvent | { type: 'error' } = JSON.parse(data);
      if (event.type === 'error')
        throw makeError(event, null, response.headers.get('x-request-id'));
      yield event;
    }
    throw new StudioError('CONNECTION_FAILED', 'The stream ended before the answer was complete.');
  }

  /**
   * Uploads a file: a `File` of a form, a `Blob`, or in Node the result of `openAsBlob` of
   * `node:fs`.
   */
  upload(file: Blob, options: UploadOptions = {}): Promise<UploadedFile> {
    return uploadFile({ api: this.api, send: this.#connection.sendWithoutKey }, file, options);
  }

  /** Reads a job; the service responds when the job has ended, or after `waitSeconds`. */
  async #readJob<C extends Capability>(
    jobId: string,
    waitSeconds: number,
    signal: AbortSignal | undefined,
  ): Promise<Job<C>> {
    try {
      const response = await this.#connection.get(`${jobPath(jobId)}?wait=${waitSeconds}`, {
        signal,
        timeoutMs: this.#timeoutMs + waitSeconds * 1000,
      });
      return (await parseBody<{ data: Job<C> }>(response)).data;
    } catch (error) {
      throw withJob(error, jobId);
    }
  }
}

const jobPath = (jobId: string): string => `/api/v1/studio/jobs/${encodeURIComponent(jobId)}`;
