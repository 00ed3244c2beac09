/** Types of the Studio endpoints, derived from the types that are generated in schema.ts. */
import type { components, paths } from './schema.ts';

type Schemas = components['schemas'];

/** Path of a Studio endpoint below `/api/v1/studio/`: `'image/generate'`, `'video/upscale'`, … */
export type Capability = Schemas['Capability'];

type Operation<C extends Capability> = paths[`/api/v1/studio/${C}`]['post'];

type RequestBody<C extends Capability> = Operation<C>['requestBody']['content']['application/json'];

/** Request body of a capability. A saved recipe may have the fields that the body does not have. */
export type Input<C extends Capability> =
  | RequestBody<C>
  | (Partial<RequestBody<C>> & { recipe: string });

type ResponseBody<C extends Capability> =
  Operation<C>['responses'][200]['content']['application/json'];

/** Result of a capability. */
export type Result<C extends Capability> =
  ResponseBody<C> extends { data: infer Data } ? Data : ResponseBody<C>;

/** Reference to a submitted job; `C` is its capability, which determines the type of its result. */
export interface JobTicket<C extends Capability = Capability> {
  jobId: string;
  /** Capability of the job, only for the type checker: the field is never set at run time. */
  readonly capability?: C;
}

/** Job in the format of `GET /api/v1/studio/jobs/{jobId}`. */
export type Job<C extends Capability = Capability> = Omit<Schemas['JobOutput'], 'result'> & {
  /** Result of the job. Null until the job is completed. */
  result: Result<C> | null;
};

/** Completed job. */
export type CompletedJob<C extends Capability = Capability> = Job<C> & { result: Result<C> };

/** Options with which a pipeline is resumed: its first step that runs again, and new bodies. */
export type ResumeOptions = Omit<Schemas['ResumePipelineRequest'], 'bodies' | 'async'> & {
  /** Bodies of steps that run, by step id. */
  bodies?: Record<string, RequestBody<'pipelines'>['steps'][number]['body']>;
};

/** Decision about a step of a pipeline that waits. */
export type StepDecision =
  | Exclude<Schemas['DecideStepRequest'], { decision: 'approve' }>
  | {
      decision: 'approve';
      /** Indexes of the chosen outputs, by the id of the earlier step. */
      outputs?: Record<string, number>;
      /** Fields that replace those of the body of the step. */
      body?: Partial<RequestBody<'pipelines'>['steps'][number]['body']>;
    };

/** Decision about items of a bulk job that wait: which items, and the decision about a step of each. */
export type ItemsDecision = StepDecision &
  Pick<Schemas['ItemsRejected'], 'items' | 'awaitingBefore' | 'step'>;

/** Estimated price of a request, in credits. */
export type Estimate = Schemas['StudioEstimate'];

/** Options that every method accepts. */
export interface SignalOption {
  /**
   * Aborts the method, which then throws the signal's reason. A job that was already submitted
   * keeps running; `cancel` stops it.
   */
  signal?: AbortSignal | undefined;
}

/** Options of the methods that start a job or a chat. */
export interface CallOptions extends SignalOption {
  /**
   * Idempotency key (1–255 printable characters). Defaults to a random key, which is sent again
   * with each retry.
   */
  idempotencyKey?: string;
}

/** Options of the methods that wait for a job. */
export interface WaitOptions extends SignalOption {
  /**
   * Maximum time to wait in milliseconds; defaults to no limit. After this time, a `StudioError`
   * with the code `TIMEOUT` is thrown, and the job keeps running.
   */
  timeoutMs?: number;
}
