/** The client: the service's verbs over its OpenAPI description. */
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
  WaitOptions,
} from './capabilities.ts';
import type { ChatAnswer, ChatEvent, ChatRequest } from './chat.ts';
import { errorOf, StudioError } from './errors.ts';
import { eventData } from './event-stream.ts';
import type { paths } from './schema.ts';
import { createSend, sleep, type GatewayOptions, type Send, type Sent } from './transport.ts';
import { uploadFile, type UploadedFile, type UploadOptions } from './uploads.ts';

/** The service holds a poll this long. */
const pollSeconds = 20;
/** A model may think for minutes before it answers. */
const chatTimeoutMs = 600_000;
const reconnectWaitMs = 500;

/** Client of the API (README.md). Every method throws `StudioError`, or the reason of its aborted signal. */
export class StudioGateway {
  /** Every endpoint by its path, typed (openapi-fetch), with the same key, retries and errors. */
  readonly api: Client<paths>;
  readonly #baseUrl: string;
  readonly #sendAuthorized: Send;
  /** For signed URLs, which may be another service's. */
  readonly #sendBare: Send;
  readonly #retries: number;

  constructor(options: GatewayOptions) {
    this.#baseUrl = options.baseUrl.replace(/\/+$/, '');
    this.#retries = options.retries ?? 2;
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
   * Runs a capability to its end and returns what it made. A job that fails or is canceled is thrown, with
   * its code and `jobId`.
   */
  async run<C extends Capability>(
    capability: C,
    input: Input<C>,
    options: WaitOptions = {},
  ): Promise<Result<C>> {
    const job = await this.submit(capability, input, options);
    return (await this.wait(job, options)).result;
  }

  /** Starts a job; its credits are reserved when this returns. */
  async submit<C extends Capability>(
    capability: C,
    input: Input<C>,
    { signal, idempotencyKey }: CallOptions = {},
  ): Promise<JobTicket<C>> {
    const response = await this.#post(`/api/v1/studio/${capability}`, input, {
      signal,
      headers: { Prefer: 'respond-async', ...keyHeader(idempotencyKey) },
    });
    // A repeat of a request whose job is done is answered with its result: only the header names it.
    const jobId = response.headers.get('x-job-id');
    if (jobId === null) throw new StudioError('JOB_LOST', 'The answer names no job.');
    return { jobId };
  }

  /** What `submit` would reserve, and what that is made of; nothing is started. */
  async estimate<C extends Capability>(
    capability: C,
    input: Input<C>,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<Estimate> {
    const response = await this.#post(`/api/v1/studio/${capability}/estimate`, input, { signal });
    return (await jsonOf<{ data: Estimate }>(response)).data;
  }

  /** Waits for the end of a job and returns it completed. Thrown: as `run`. */
  async wait<C extends Capability>(
    job: JobTicket<C>,
    { signal, timeoutMs = Infinity }: Omit<WaitOptions, 'idempotencyKey'> = {},
  ): Promise<CompletedJob<C>> {
    const { jobId } = job;
    const endsAtMs = performance.now() + timeoutMs;
    for (;;) {
      const leftSeconds = Math.max(0, (endsAtMs - performance.now()) / 1000);
      const now = await this.#look<C>(jobId, Math.min(pollSeconds, leftSeconds), signal);
      if (now.error) throw new StudioError(now.error.code, now.error.message, { jobId, body: now });
      if (now.result) return { ...now, result: now.result };
      if (now.done) throw new StudioError('JOB_LOST', 'The job has no result.', { jobId });
      if (performance.now() >= endsAtMs) {
        throw new StudioError('TIMEOUT', `The job is not done within ${timeoutMs} ms.`, { jobId });
      }
    }
  }

  /** A job as it is now. */
  job<C extends Capability>(
    job: JobTicket<C>,
    options: { signal?: AbortSignal } = {},
  ): Promise<Job<C>> {
    return this.#look(job.jobId, 0, options.signal);
  }

  /** The job each time it has changed, the last time when it is done, however it ended. */
  async *events<C extends Capability>(
    { jobId }: JobTicket<C>,
    { signal }: { signal?: AbortSignal } = {},
  ): AsyncGenerator<Job<C>, void, undefined> {
    const url = `${this.#baseUrl}/api/v1/studio/jobs/${encodeURIComponent(jobId)}/events`;
    for (let broken = 0; ; broken += 1) {
      try {
        const response = await this.#sendAuthorized({ url, method: 'GET', signal });
        for await (const data of eventData(response)) {
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
      // The stream ended before the job: it begins again with the job as it is.
      await sleep(reconnectWaitMs, signal);
    }
  }

  /** Asks for the end of a job and returns it as it is then: what the provider says decides. */
  async cancel<C extends Capability>({ jobId }: JobTicket<C>): Promise<Job<C>> {
    const url = `/api/v1/studio/jobs/${encodeURIComponent(jobId)}/cancel`;
    const response = await this.#post(url, undefined, {});
    const { data } = await jsonOf<{ data: Job<C> }>(response);
    return data;
  }

  /** A whole answer of a model. */
  async chat(request: ChatRequest, options: CallOptions = {}): Promise<ChatAnswer> {
    const response = await this.#post('/api/v1/chat', request, {
      signal: options.signal,
      headers: keyHeader(options.idempotencyKey),
      timeoutMs: chatTimeoutMs,
    });
    return jsonOf(response);
  }

  /** An answer as it comes; an answer that breaks off is thrown after what there was of it. */
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
    for await (const data of eventData(response)) {
      if (data === '[DONE]') return;
      const event: ChatEvent | { type: 'error' } = JSON.parse(data);
      if (event.type === 'error') throw errorOf(event, null, response.headers.get('x-request-id'));
      yield event;
    }
    throw new StudioError('CONNECTION_FAILED', 'The stream ended before the answer.');
  }

  /** Uploads a file: a `File` of a form, a `Blob`, in Node what `openAsBlob` of `node:fs` returns. */
  upload(file: Blob, options: UploadOptions = {}): Promise<UploadedFile> {
    return uploadFile({ api: this.api, send: this.#sendBare }, file, options);
  }

  async #look<C extends Capability>(
    jobId: string,
    waitSeconds: number,
    signal: AbortSignal | undefined,
  ): Promise<Job<C>> {
    const { data } = await this.api.GET('/api/v1/studio/jobs/{jobId}', {
      params: { path: { jobId }, query: { wait: waitSeconds } },
      signal: signal ?? null,
    });
    // oxlint-disable-next-line no-unsafe-type-assertion -- who submitted the job knows what it makes
    return data?.data as Job<C>;
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

/** With the key, and for what costs or creates a name of its own: a repeat is then the same request. */
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
