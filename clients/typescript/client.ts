/** Client of the API: methods for jobs, chats, files and lists, typed from the OpenAPI description. */
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
import { errorOf, StudioError, withJob } from './errors.ts';
import { eventData } from './event-stream.ts';
import {
  type FileFilter,
  type JobFilter,
  listFiles,
  listJobs,
  listUsage,
  type StoredFile,
  type UsageFilter,
  type UsageRecord,
} from './lists.ts';
import type { paths } from './schema.ts';
import {
  attemptTimeoutMs,
  createSend,
  sleep,
  type GatewayOptions,
  type Send,
  type Sent,
} from './transport.ts';
import { uploadFile, type UploadedFile, type UploadOptions } from './uploads.ts';

/** Longest time for which the service holds a poll, in seconds. */
const pollSeconds = 20;
/** Time limit of a chat in milliseconds, because a model may take minutes. */
const chatTimeoutMs = 600_000;
const reconnectWaitMs = 500;

/** Client of the API (README.md). Every method throws `StudioError`, or the reason of its aborted signal. */
export class StudioGateway {
  /** Typed calls of any endpoint by its path (openapi-fetch), with the same key, retries and errors. */
  readonly api: Client<paths>;
  readonly #baseUrl: string;
  readonly #sendAuthorized: Send;
  /** Sends requests without the key, for signed URLs, which may belong to another service. */
  readonly #sendBare: Send;
  readonly #retries: number;
  readonly #timeoutMs: number;

  constructor(options: GatewayOptions) {
    this.#baseUrl = options.baseUrl.replace(/(\/api)?(\/v1)?\/*$/, '');
    this.#retries = options.retries ?? 2;
    this.#timeoutMs = options.timeoutMs ?? attemptTimeoutMs;
    const send = createSend(options);
    this.#sendBare = send;
    this.#sendAuthorized = (request) => send(authorized(request, options.apiKey));
    this.api = createClient<paths>({
      baseUrl: this.#baseUrl,
      fetch: async (request) =>
        this.#sendAuthorized({
          url: request.url,
          method: request.method,
          headers: Object.fromEntries(request.headers),
          ...(request.body && { body: await request.text() }),
          signal: request.signal,
        }),
    });
  }

  /**
   * Submits a job, waits for its end, and returns its result. If the job fails or is canceled, a `StudioError` with its code
   * and `jobId` is thrown.
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
    const response = await this.#post(`/api/v1/studio/${capability}`, input, {
      signal,
      headers: { Prefer: 'respond-async', ...keyHeader(idempotencyKey) },
    });
    // If the request is repeated after the job has ended, the body is the result, and only the header has the id.
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
    const response = await this.#post(`/api/v1/studio/${capability}/estimate`, input, { signal });
    return (await jsonOf<{ data: Estimate }>(response)).data;
  }

  /** Waits for the end of a job, and returns the completed job. Throws the same errors as `run`. */
  async wait<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal, timeoutMs = Infinity }: WaitOptions = {},
  ): Promise<CompletedJob<C>> {
    const endsAtMs = performance.now() + timeoutMs;
    for (;;) {
      const leftSeconds = Math.max(0, (endsAtMs - performance.now()) / 1000);
      const now = await this.#look<C>(jobId, Math.min(pollSeconds, leftSeconds), signal);
      if (now.error) throw new StudioError(now.error.code, now.error.message, { jobId, body: now });
      if (now.result) return { ...now, result: now.result };
      if (now.done) throw new StudioError('JOB_LOST', 'The job has no result.', { jobId });
      if (performance.now() >= endsAtMs) {
        const message = `The job has not ended within ${timeoutMs} ms; it continues.`;
        throw new StudioError('TIMEOUT', message, { jobId });
      }
    }
  }

  /** Returns the current state of a job. */
  job<C extends Capability>(job: JobTicket<C>, options: SignalOption = {}): Promise<Job<C>> {
    return this.#look(job.jobId, 0, options.signal);
  }

  /** Yields the job after each change. The last one has ended: completed, failed or canceled. */
  async *events<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal }: SignalOption = {},
  ): AsyncGenerator<Job<C>, void, undefined> {
    const url = `${this.#baseUrl}/api/v1/studio/jobs/${encodeURIComponent(jobId)}/events`;
    for (let broken = 0; ; broken += 1) {
      try {
        const response = await this.#sendAuthorized({ url, method: 'GET', signal });
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
   * Requests the cancellation of a job, and returns its state after that: canceled, or still running if the provider has not
   * decided.
   */
  async cancel<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal }: SignalOption = {},
  ): Promise<Job<C>> {
    const path = `/api/v1/studio/jobs/${encodeURIComponent(jobId)}/cancel`;
    const response = await this.#post(path, undefined, { signal });
    const { data } = await jsonOf<{ data: Job<C> }>(response);
    return data;
  }

  /** Lists the jobs of the organization, newest first; pages are read as needed. */
  jobs(filter: JobFilter = {}, options: SignalOption = {}): AsyncGenerator<Job, void, undefined> {
    return listJobs(this.api, filter, options);
  }

  /** Lists the usage records of the organization, newest first; pages are read as needed. */
  usage(
    filter: UsageFilter = {},
    options: SignalOption = {},
  ): AsyncGenerator<UsageRecord, void, undefined> {
    return listUsage(this.api, filter, options);
  }

  /** Lists the stored files of the organization, newest first; pages are read as needed. */
  files(
    filter: FileFilter = {},
    options: SignalOption = {},
  ): AsyncGenerator<StoredFile, void, undefined> {
    return listFiles(this.api, filter, options);
  }

  /** Sends a chat, and returns the complete answer. */
  async chat(request: ChatRequest, options: CallOptions = {}): Promise<ChatAnswer> {
    const response = await this.#post('/api/v1/chat', request, {
      signal: options.signal,
      headers: keyHeader(options.idempotencyKey),
      timeoutMs: chatTimeoutMs,
    });
    return jsonOf(response);
  }

  /** Sends a chat, and yields its answer in parts. If the answer breaks off, an error is thrown after the received parts. */
  async *chatStream(
    request: ChatRequest,
    options: CallOptions = {},
  ): AsyncGenerator<ChatEvent, void, undefined> {
    const response = await this.#post(
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
      if (event.type === 'error') throw errorOf(event, null, response.headers.get('x-request-id'));
      yield event;
    }
    throw new StudioError('CONNECTION_FAILED', 'The stream ended before the answer was complete.');
  }

  /** Uploads a file: a `File` of a form, a `Blob`, or in Node the result of `openAsBlob` of `node:fs`. */
  upload(file: Blob, options: UploadOptions = {}): Promise<UploadedFile> {
    return uploadFile({ api: this.api, send: this.#sendBare }, file, options);
  }

  /** Reads a job; the service responds when the job has ended, or after `waitSeconds`. */
  async #look<C extends Capability>(
    jobId: string,
    waitSeconds: number,
    signal: AbortSignal | undefined,
  ): Promise<Job<C>> {
    try {
      const response = await this.#sendAuthorized({
        url: `${this.#baseUrl}/api/v1/studio/jobs/${encodeURIComponent(jobId)}?wait=${waitSeconds}`,
        method: 'GET',
        signal,
        timeoutMs: this.#timeoutMs + waitSeconds * 1000,
      });
      return (await jsonOf<{ data: Job<C> }>(response)).data;
    } catch (error) {
      throw withJob(error, jobId);
    }
  }

  #post(path: string, body: unknown, options: Partial<Sent>): Promise<Response> {
    return this.#sendAuthorized({
      ...options,
      url: `${this.#baseUrl}${path}`,
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...options.headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  }
}

/** Adds the key and, to a POST, an idempotency key, so that a retry is the same request. */
function authorized(request: Sent, apiKey: string): Sent {
  const headers = new Headers(request.headers);
  headers.set('Authorization', `Bearer ${apiKey}`);
  if (request.method === 'POST' && !headers.has('Idempotency-Key')) {
    headers.set('Idempotency-Key', crypto.randomUUID());
  }
  return { ...request, headers: Object.fromEntries(headers) };
}

function keyHeader(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { 'Idempotency-Key': key };
}

async function jsonOf<Body>(response: Response): Promise<Body> {
  return JSON.parse(await response.text());
}
