/**
 * Client of the API: methods for jobs, chats, files and lists, with types generated from the
 * OpenAPI description.
 */
import createClient, { type Client } from 'openapi-fetch';
import { BulkJobs } from './bulk.ts';
import type {
  Capability,
  CallOptions,
  CompletedJob,
  Estimate,
  Input,
  Job,
  JobTicket,
  ResumeOptions,
  StepDecision,
  Result,
  SignalOption,
  WaitOptions,
} from './capabilities.ts';
import type { ChatAnswer, ChatEvent, ChatRequest } from './chat.ts';
import {
  connect,
  idempotencyHeader,
  parseBody,
  type Connection,
  type ConnectionOptions,
} from './connection.ts';
import { buildError, StudioError, addJobId } from './errors.ts';
import { readEvents } from './event-stream.ts';
import {
  listItems,
  type FileFilter,
  type Items,
  type JobFilter,
  type RequestFilter,
  type RequestRecord,
  type StoredFile,
  type UsageFilter,
  type UsageRecord,
} from './lists.ts';
import type { paths } from './schema.ts';
import { defaultTimeoutMs, sleep } from './transport.ts';
import { uploadFile, type UploadedFile, type UploadOptions } from './uploads.ts';

/** Maximum time in seconds that one poll waits for the end of a job. */
const pollSeconds = 20;
/** Timeout of a chat in milliseconds. It is long, because a model may take minutes to answer. */
const chatTimeoutMs = 600_000;
const reconnectWaitMs = 500;

/**
 * Client of the API (README.md). Its methods throw `StudioError`, or the reason of the signal if it
 * is aborted.
 */
export class StudioGateway {
  /**
   * Typed client that calls any endpoint by its path (openapi-fetch). It uses the API key, retries
   * and errors of this `StudioGateway`.
   */
  readonly api: Client<paths>;
  readonly bulk: BulkJobs;
  readonly #connection: Connection;
  readonly #retries: number;
  readonly #timeoutMs: number;

  constructor(options: ConnectionOptions) {
    const connection = connect(options);
    this.#connection = connection;
    this.#retries = options.retries ?? 2;
    this.#timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    this.bulk = new BulkJobs(connection, { retries: this.#retries, timeoutMs: this.#timeoutMs });
    this.api = createClient<paths>({
      baseUrl: connection.baseUrl,
      fetch: async (request) => {
        // Firefox has no `request.body`.
        const body = await request.blob();
        return connection.send({
          url: request.url,
          method: request.method,
          headers: Object.fromEntries(request.headers),
          ...(body.size > 0 && { body }),
          signal: request.signal,
        });
      },
    });
  }

  /**
   * Submits a job, waits for it to end, and returns its result. If the job fails or is canceled,
   * throws a `StudioError` with the error code of the job and its `jobId`.
   */
  async run<C extends Capability>(
    capability: C,
    input: Input<C>,
    options: CallOptions & WaitOptions = {},
  ): Promise<Result<C>> {
    const job = await this.submit(capability, input, options);
    return (await this.wait(job, options)).result;
  }

  /** Starts a job, and returns once its credits are reserved. */
  async submit<C extends Capability>(
    capability: C,
    input: Input<C>,
    options: CallOptions = {},
  ): Promise<JobTicket<C>> {
    return this.#submit(`/api/v1/studio/${capability}`, input, options);
  }

  async #submit(
    path: string,
    body: object,
    { signal, idempotencyKey }: CallOptions,
  ): Promise<{ jobId: string }> {
    const response = await this.#connection.post(path, body, {
      signal,
      headers: { Prefer: 'respond-async', ...idempotencyHeader(idempotencyKey) },
    });
    // The id is read from the header, because the body does not contain it if a retry arrives after
    // the job has ended. The body is then the job's result.
    const jobId = response.headers.get('x-job-id');
    if (jobId === null) throw new StudioError('JOB_LOST', 'The response has no X-Job-Id header.');
    return { jobId };
  }

  /** Returns the credits that `submit` would reserve, in total and by item. Starts no job. */
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

  /** Waits for a job to end, and returns the completed job. Throws the same errors as `run`. */
  async wait<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal, timeoutMs = Infinity }: WaitOptions = {},
  ): Promise<CompletedJob<C>> {
    const timeoutAtMs = performance.now() + timeoutMs;
    for (;;) {
      const remainingSeconds = Math.max(0, (timeoutAtMs - performance.now()) / 1000);
      const job = await this.#readJob<C>(jobId, Math.min(pollSeconds, remainingSeconds), signal);
      if (job.error) throw new StudioError(job.error.code, job.error.message, { jobId, body: job });
      if (job.result) return { ...job, result: job.result };
      if (job.done)
        throw new StudioError('MEDIA_DELETED', 'The result of the job was deleted.', { jobId });
      if (performance.now() >= timeoutAtMs) {
        const message = `The job did not end within ${timeoutMs} ms; it is still running.`;
        throw new StudioError('TIMEOUT', message, { jobId });
      }
    }
  }

  /** Returns the current state of a job. */
  job<C extends Capability>(job: JobTicket<C>, options: SignalOption = {}): Promise<Job<C>> {
    return this.#readJob(job.jobId, 0, options.signal);
  }

  /** Yields the job each time it changes, until it has completed, failed or been canceled. */
  async *events<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal }: SignalOption = {},
  ): AsyncGenerator<Job<C>, void, undefined> {
    for (let failures = 0; ; failures += 1) {
      try {
        const response = await this.#connection.get(`${jobPath(jobId)}/events`, { signal });
        for await (const data of readEvents(response, signal)) {
          const job: Job<C> = JSON.parse(data);
          failures = 0;
          yield job;
          if (job.done) return;
        }
      } catch (error) {
        signal?.throwIfAborted();
        const isBroken = error instanceof StudioError && error.code === 'CONNECTION_FAILED';
        if (!isBroken || failures >= this.#retries) throw error;
      }
      // The stream ended, but not the job. A new stream begins with the job's current state.
      await sleep(reconnectWaitMs, signal);
    }
  }

  /**
   * Requests the cancellation of a job, and returns the job. It is still running if the provider
   * has not confirmed the cancellation yet.
   */
  async cancel<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal }: SignalOption = {},
  ): Promise<Job<C>> {
    const response = await this.#connection.post(`${jobPath(jobId)}/cancel`, undefined, { signal });
    return (await parseBody<{ data: Job<C> }>(response)).data;
  }

  /**
   * Resumes a pipeline that has ended: starts a new job that takes over what its steps delivered,
   * and runs the others. With `from`, that step and all that depend on it run again.
   */
  async resume(
    { jobId }: JobTicket<'pipelines'>,
    { signal, idempotencyKey, ...body }: ResumeOptions & CallOptions = {},
  ): Promise<JobTicket<'pipelines'>> {
    const options = { signal, ...(idempotencyKey !== undefined && { idempotencyKey }) };
    return this.#submit(`${jobPath(jobId)}/resume`, body, options);
  }

  /**
   * Decides about a step that waits: approves it, with the chosen outputs or a changed body, or
   * rejects it. Approving spends the credits that the job has reserved for the step. Returns the job.
   */
  async decide<C extends Capability>(
    { jobId }: JobTicket<C>,
    step: string,
    { signal, ...decision }: StepDecision & SignalOption,
  ): Promise<Job<C>> {
    const path = `${jobPath(jobId)}/steps/${encodeURIComponent(step)}/decision`;
    const response = await this.#connection.post(path, decision, { signal });
    return (await parseBody<{ data: Job<C> }>(response)).data;
  }

  /** Lists the jobs of the organization, newest first; fetches each page when it is needed. */
  jobs(filter: JobFilter = {}, { signal }: SignalOption = {}): Items<Job> {
    return listItems(this.#connection, '/api/v1/studio/jobs', { filter, signal });
  }

  /**
   * Lists the chats, embeddings and rejected requests of the organization, newest first; fetches each page when it
   * is needed.
   */
  requests(filter: RequestFilter = {}, { signal }: SignalOption = {}): Items<RequestRecord> {
    return listItems(this.#connection, '/api/v1/requests', { filter, signal });
  }

  /**
   * Lists the usage records of the organization, newest first; fetches each page when it is needed.
   */
  usage(filter: UsageFilter = {}, { signal }: SignalOption = {}): Items<UsageRecord> {
    return listItems(this.#connection, '/api/v1/usage', { filter, signal });
  }

  /**
   * Lists the stored files of the organization, newest first; fetches each page when it is needed.
   */
  files(filter: FileFilter = {}, { signal }: SignalOption = {}): Items<StoredFile> {
    return listItems(this.#connection, '/api/v1/storage/files', { filter, signal });
  }

  /** Sends a chat request, and returns the complete answer. */
  async chat(request: ChatRequest, options: CallOptions = {}): Promise<ChatAnswer> {
    const response = await this.#connection.post('/api/v1/chat', request, {
      signal: options.signal,
      headers: idempotencyHeader(options.idempotencyKey),
      timeoutMs: chatTimeoutMs,
    });
    return parseBody(response);
  }

  /**
   * Sends a chat request, and yields the answer in parts. If the stream fails, yields the parts
   * that were received, and then throws an error.
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
        headers: idempotencyHeader(options.idempotencyKey),
        timeoutMs: chatTimeoutMs,
      },
    );
    for await (const data of readEvents(response, options.signal)) {
      if (data === '[DONE]') return;
      const event: ChatEvent | { type: 'error' } = JSON.parse(data);
      if (event.type === 'error')
        throw buildError(event, null, response.headers.get('x-request-id'));
      yield event;
    }
    throw new StudioError('CONNECTION_FAILED', 'The stream ended before the answer was complete.');
  }

  /**
   * Uploads a `Blob`, for example a `File` from a form, or in Node the result of `openAsBlob` from
   * `node:fs`.
   */
  upload(file: Blob, options: UploadOptions = {}): Promise<UploadedFile> {
    return uploadFile({ api: this.api, send: this.#connection.sendWithoutKey }, file, options);
  }

  /** Reads a job. The gateway responds when the job has ended, or after `waitSeconds`. */
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
      throw addJobId(error, jobId);
    }
  }
}

const jobPath = (jobId: string): string => `/api/v1/studio/jobs/${encodeURIComponent(jobId)}`;
