/** The Studio's endpoints as types, all from the OpenAPI description: a new one needs no code here. */
import type { components, paths } from './schema.ts';

type Schemas = components['schemas'];

/** A Studio endpoint, by its path below `/api/v1/studio/`: `'image/generate'`, `'video/upscale'`, … */
export type Capability = Schemas['Capability'];

type Operation<C extends Capability> = paths[`/api/v1/studio/${C}`]['post'];

/** The body that a capability takes. */
export type Input<C extends Capability> =
  Operation<C>['requestBody']['content']['application/json'];

type Answer<C extends Capability> = Operation<C>['responses'][200]['content']['application/json'];

/** What a capability makes. */
export type Result<C extends Capability> =
  Answer<C> extends { data: infer Data } ? Data : Answer<C>;

/** A job that was accepted; `C` remembers what it makes. */
export interface JobTicket<C extends Capability = Capability> {
  jobId: string;
  /** Not there at run time. */
  readonly capability?: C;
}

/** The job as `GET /api/v1/studio/jobs/{jobId}` shows it. */
export type Job<C extends Capability = Capability> = Omit<Schemas['JobOutput'], 'result'> & {
  /** Null until the job is completed. */
  result: Result<C> | null;
};

/** A price before the call, in credits. */
export type Estimate = Schemas['StudioEstimate'];

/** Of one call. */
export interface CallOptions {
  /** Ends the waiting of this program; a job that was accepted goes on (see `cancel`). */
  signal?: AbortSignal;
  /** A name of your own for this call (1–255 printable characters); absent: a new one, used for retries only. */
  idempotencyKey?: string;
}

/** Of a call that waits for a job. */
export interface WaitOptions extends CallOptions {
  /** Milliseconds until `TIMEOUT` is thrown, while the job goes on; absent: the job's own end. */
  timeoutMs?: number;
}
