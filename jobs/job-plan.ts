/**
 * The job plan: everything that a running workflow needs, decided once by the API. A workflow reads
 * neither the catalog nor the configuration, so a later change of them does not affect a running
 * job (design §3.1).
 */
import type { z } from 'zod';
import type { JsonObject } from '../domain/json.ts';
import type { callOutputs, storedArtifact } from './job-record.ts';

/** One route of a call: provider, provider endpoint and request body. */
export interface CallRoute {
  provider: string;
  /** Temporal task queue on which this provider's calls run. */
  taskQueue: string;
  /** Provider endpoint, e.g. fal's endpoint id. */
  providerEndpoint: string;
  /** Request body in the provider's format. */
  input: JsonObject;
  /**
   * True if the provider sends a notification at the end, even if its response to the submit was
   * lost.
   */
  notifies: boolean;
  /** Time limit of a submit, after which its outcome is unknown. */
  submitTimeoutMs: number;
}

/**
 * Unit of a call's quantity. `artifact`: delivered outputs; `second`: seconds of the output,
 * rounded up; `character`: characters sent, all charged when the output is delivered.
 */
export type Meter = 'artifact' | 'second' | 'character';

/** Expected properties of an output that the request determines; a difference is logged. */
export interface ExpectedOutput {
  /** Pixels. */
  width?: number;
  height?: number;
  durationSeconds?: number;
  hasAudio?: boolean;
}

/**
 * A cheaper output than the requested one. It applies to an output that has all of these
 * properties.
 */
export interface OutputVariant {
  /** True if the output has no sound. */
  hasAudio?: false;
  /** The output has fewer pixels than this. */
  pixelsBelow?: number;
  /** Micro-credits by which a unit is cheaper than a unit of the requested output. */
  unitDiscountMicro: number;
}

/** Expected outputs of a call, and their storage format. */
export interface OutputSpec {
  medium: 'image' | 'video' | 'audio' | 'json';
  /** Format that the caller requested, if the provider may deliver another one. */
  format: 'png' | 'jpeg' | 'webp' | null;
  /** Compared with the delivered output before the charge. */
  expected?: ExpectedOutput;
  /** Cheaper outputs; if several apply, the cheapest is charged. */
  variants?: OutputVariant[];
}

/** One request to a provider. The next route is tried only if the previous one was refused. */
export interface PlannedCall {
  index: number;
  routes: CallRoute[];
  output: OutputSpec;
  meter: Meter;
  /** Number of requested units (see `Meter`); no more units are charged. */
  quantity: number;
  /** Price of one delivered unit, in micro-credits. */
  unitPriceMicro: number;
  /** True if the failure of this call fails the job. */
  required: boolean;
  /** Time before the first status check if no notification arrives, in milliseconds. */
  firstCheckMs: number;
  /**
   * Earlier call whose first artifact is the input of this call, and the input field that names it.
   */
  inputFrom: { callIndex: number; field: string } | null;
}

/** Version of the plan format that this code makes and runs. */
export const planVersion = 1;

/** A complete Studio job. */
export interface JobPlan {
  planVersion: number;
  jobId: string;
  organizationId: string;
  keyId: string;
  requestId: string;
  /** Temporal workflow type, e.g. `imageGenerate`. */
  type: string;
  model: string | null;
  /** Reserved micro-credits: the sum of quantity × unit price of all calls. */
  priceMicro: number;
  /** The caller's metadata; absent if there is none. */
  metadata?: Record<string, string>;
  /** The validated request, used for the response; never part of a Temporal summary. */
  request: JsonObject;
  calls: PlannedCall[];
  /** Assembly of the calls' artifacts before the charge; its result is an additional output. */
  assembly: 'concat_audio' | null;
  /**
   * Deadline in ISO 8601, after which a cancel is sent to the provider and its outcome is awaited.
   */
  deadlineAt: string;
  deadlineMs: number;
  /**
   * Usual time of the calls from submit to result, in seconds; null if the catalog does not have
   * it.
   */
  typicalSeconds: number | null;
  /**
   * Task queue of the caller's webhook, and whether it reports the start of the job; null if the
   * caller has none.
   */
  webhook: { taskQueue: string; started?: true } | null;
  outcomeWaitMs: number;
  /** Time after which the sweeper checks whether the workflow still runs. */
  reservationTtlMs: number;
}

export type StoredArtifact = z.infer<typeof storedArtifact>;

export type CallOutputs = z.infer<typeof callOutputs>;

/** Input of an activity: one call by one of its routes. */
export interface CallTask {
  jobId: string;
  organizationId: string;
  callIndex: number;
  routeIndex: number;
  route: CallRoute;
  output: OutputSpec;
  meter: Meter;
  quantity: number;
  /**
   * Storage key of the earlier result that is the input of the call, and the input field that names
   * it.
   */
  source: { field: string; storageKey: string } | null;
  /** Number of refusals of the provider after which the next route is tried. */
  refusalsMax: number;
}

/** Selection of a call of the plan, its route and its input. */
export interface CallChoice {
  call: PlannedCall;
  routeIndex: number;
  /** Storage key of the earlier result that is the input of the call. */
  inputKey?: string | undefined;
}

const refusalsMax = 4;
/**
 * Number of refusals after which the last route fails: a provider has about 15 seconds to recover.
 */
const lastRouteRefusalsMax = 6;

/** Makes the activity input of a call; null if the plan has no such route. */
export function callTaskOf(plan: JobPlan, choice: CallChoice): CallTask | null {
  const { call, routeIndex, inputKey } = choice;
  const route = call.routes[routeIndex];
  if (!route) return null;
  return {
    jobId: plan.jobId,
    organizationId: plan.organizationId,
    callIndex: call.index,
    routeIndex,
    route,
    output: call.output,
    meter: call.meter,
    quantity: call.quantity,
    source:
      call.inputFrom && inputKey !== undefined
        ? { field: call.inputFrom.field, storageKey: inputKey }
        : null,
    refusalsMax: routeIndex === call.routes.length - 1 ? lastRouteRefusalsMax : refusalsMax,
  };
}
