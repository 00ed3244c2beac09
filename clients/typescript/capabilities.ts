/**
 * Types of the Studio's endpoints, derived from the OpenAPI description, so a new endpoint needs no
 * code here.
 */
import type { components, paths } from './schema.ts';

type Schemas = components['schemas'];

/**
 * Studio endpoint, as its path below `/api/v1/studio/`: `'image/generate'`, `'video/upscale'`, …
 */
export type Capability = Schemas['Capability'];

type Operation<C extends Capability> = paths[`/api/v1/studio/${C}`]['post'];

/** Request body of a capability. */
export type Input<C extends Capability> =
  Operation<C>['requestBody']['content']['application/json'];

type Answer<C extends Capability> = Operation<C>['responses'][200]['content']['application/json'];

/** Result of a capability. */
export type Result<C extends Capability> =
  Answer<C> extends { data: infer Data } ? Data : Answer<C>;

/** Accepted job; `C` is the type of its result. */
export interface JobTicket<C extends Capability = Capability> {
  jobId: string;
  /** Only for the type checker; absent at run time. */
  readonly capability?: C;
}

/** Job, as `GET /api/v1/studio/jobs/{jobId}` returns it. */
export type Job<C extends Capability = Capability> = Omit<Schemas['JobOutput'], 'result'> & {
  /** Null until the job is completed. */
  result: Result<C> | null;
};

/** Completed job. */
export type CompletedJob<C extends Capability = Capability> = Job<C> & { result: Result<C> };

/** Estimated price of a request, in credits. */
export type Estimate = Schemas['StudioEstimate'];

/** Option of every call. */
export interface SignalOption {
  /**
   * Aborts the call, which then throws the signal's reason. An accepted job continues (see
   * `cancel`).
   */
  signal?: AbortSignal | undefined;
}

/** Options of a call that creates something. */
export interface CallOptions extends SignalOption {
  /**
   * Idempotency key (1–255 printable characters); absent: a new key, which only the retries of this
   * call share.
   */
  idempotencyKey?: string;
}

/** Options of waiting for a job. */
export interface WaitOptions extends SignalOption {
  /** Milliseconds after which `TIMEOUT` is thrown while the job continues; absent: no limit. */
  timeoutMs?: number;
}
