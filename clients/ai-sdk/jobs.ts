/** Runs Studio jobs for the models of the AI SDK. */
import { APICallError } from '@ai-sdk/provider';
import {
  StudioError,
  type Capability,
  type CompletedJob,
  type Input,
  type JobTicket,
  type StudioGateway,
} from 'studio-gateway-client';
import type { ModelList } from './model-list.ts';

/** Parts that all models of a provider share. */
export interface Studio {
  client: StudioGateway;
  fetch: typeof globalThis.fetch;
  models: ModelList;
}

/** Options of the AI SDK that concern a whole call. */
export interface CallOptions {
  abortSignal?: AbortSignal | undefined;
  headers?: Record<string, string | undefined> | undefined;
}

/** Returns the Idempotency-Key of a call: that of its headers, or a new one. */
function findKey({ headers = {} }: CallOptions): string {
  const entry = Object.entries(headers).find(([name]) => name.toLowerCase() === 'idempotency-key');
  return entry?.[1] ?? crypto.randomUUID();
}

/** Job that was started, with the key under which a repeated start returns the same job. */
export interface StartedJob<C extends Capability> extends JobTicket<C> {
  idempotencyKey: string;
}

/**
 * Starts a job. If the signal is aborted meanwhile, the job is canceled.
 * @throws APICallError; the reason of the signal
 */
export async function startJob<C extends Capability>(
  { client }: Studio,
  { capability, body }: { capability: C; body: Record<string, unknown> },
  options: CallOptions,
): Promise<StartedJob<C>> {
  const { abortSignal } = options;
  abortSignal?.throwIfAborted();
  const idempotencyKey = findKey(options);
  // The gateway checks the fields of the caller.
  const input = body as Input<C>;
  // The request itself is not aborted: its response names the job to cancel.
  const submitted = client.submit(capability, input, { idempotencyKey });
  const handleAbort = (): void => cancelJob(client, submitted);
  abortSignal?.addEventListener('abort', handleAbort, { once: true });
  try {
    const { jobId } = await orAborted(submitted, abortSignal);
    return { jobId, idempotencyKey };
  } catch (error) {
    throw toCallError(error, capability, body);
  } finally {
    abortSignal?.removeEventListener('abort', handleAbort);
  }
}

/**
 * Starts a job and waits for its result. If the signal is aborted, the job is canceled.
 * @throws APICallError; the reason of the signal
 */
export async function runJob<C extends Capability>(
  studio: Studio,
  request: { capability: C; body: Record<string, unknown> },
  options: CallOptions,
): Promise<CompletedJob<C>> {
  const job = await startJob(studio, request, options);
  const { abortSignal } = options;
  try {
    return await studio.client.wait<C>(job, { signal: abortSignal });
  } catch (error) {
    if (abortSignal?.aborted) cancelJob(studio.client, Promise.resolve(job));
    throw toCallError(error, request.capability, request.body);
  }
}

/** Rejects with the reason of the signal once it is aborted. */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  const { promise, reject } = Promise.withResolvers<never>();
  const handleAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', handleAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', handleAbort);
  }
}

/** Requests the cancellation of a job in the background; a job that has ended stays as it is. */
function cancelJob(client: StudioGateway, submitted: Promise<JobTicket>): void {
  submitted.then((job) => client.cancel(job)).catch(() => {});
}

/** HTTP statuses of requests that were not accepted now. */
const retryableStatuses = new Set([408, 429, 503]);

/** Converts an error of the client to that of the AI SDK. Returns every other error unchanged. */
export function toCallError(
  error: unknown,
  capability: Capability,
  requestBodyValues: unknown,
): unknown {
  if (!(error instanceof StudioError)) return error;
  const { status, code, jobId, body } = error;
  const details = error.details.map(({ path, message }) => `${path} ${message}`).join('; ');
  return new APICallError({
    message: details === '' ? error.message : `${error.message} (${details})`,
    url: `/api/v1/studio/${capability}`,
    requestBodyValues,
    ...(status !== null && { statusCode: status }),
    ...(body !== undefined && { responseBody: JSON.stringify(body) }),
    // The client has already repeated a request without a response, under the same key.
    isRetryable: status !== null && jobId === null && retryableStatuses.has(status),
    cause: error,
    data: { code, jobId, requestId: error.requestId },
  });
}

/** Returns the metadata of a completed job. */
export function describeJob({ jobId, billing }: Pick<CompletedJob, 'jobId' | 'billing'>) {
  return { jobId, credits: billing.charged };
}

/** Downloads the file of a result. */
export async function downloadFile(
  { fetch }: Studio,
  url: string,
  { abortSignal }: CallOptions,
): Promise<Uint8Array> {
  const response = await fetch(url, { signal: abortSignal ?? null });
  if (response.ok) return new Uint8Array(await response.arrayBuffer());
  const message = `The file of the result cannot be read (status ${response.status}).`;
  throw new APICallError({ message, url, requestBodyValues: {}, statusCode: response.status });
}

/** Input file of the AI SDK: a URL, or bytes, which are Base64 if they are text. */
export type InputFile =
  | { type: 'url'; url: string }
  | { type: 'file'; data: string | Uint8Array; mediaType: string };

/** Uploads of input files, so that a repeated call sends the same URL. */
const uploads = new WeakMap<InputFile, Promise<string>>();

/** Returns the URL of an input file, which is uploaded if necessary. */
export async function toUrl({ client }: Studio, file: InputFile): Promise<string> {
  if (file.type === 'url') return file.url;
  const pending = uploads.get(file) ?? upload(client, file);
  uploads.set(file, pending);
  pending.catch(() => uploads.delete(file));
  return pending;
}

async function upload(
  client: StudioGateway,
  { data, mediaType }: { data: string | Uint8Array; mediaType: string },
): Promise<string> {
  const bytes =
    typeof data === 'string' ? Uint8Array.from(atob(data), (one) => one.charCodeAt(0)) : data;
  const { url } = await client.upload(new Blob([new Uint8Array(bytes)], { type: mediaType }));
  return url;
}
