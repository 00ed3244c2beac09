/**
 * The job plan: everything that a running workflow needs, decided once by the API. A workflow reads
 * neither the catalog nor the configuration, so a later change of them does not affect a running
 * job.
 */
import type { z } from 'zod';
import type { JsonObject } from '../domain/json.ts';
import type { callOutputs, storedArtifact } from './job-record.ts';

/** A route of a call: the provider, its endpoint, and the request body in its format. */
export interface CallRoute {
  provider: string;
  /** Temporal task queue on which this provider's calls run. */
  taskQueue: string;
  /** Provider endpoint, e.g. fal's endpoint id. */
  providerEndpoint: string;
  /** Request body in the provider's format. */
  input: JsonObject;
  /**
   * True if the provider sends a notification when the call ends, even if its response to the
   * submit was lost.
   */
  notifies: boolean;
  /** Timeout of a submit. After it, the outcome of the call is unknown. */
  submitTimeoutMs: number;
}

/**
 * Unit of a call's quantity. `artifact`: delivered outputs; `second`: seconds of the output,
 * rounded up; `character`: characters sent, all charged when the output is delivered.
 */
export type Meter = 'artifact' | 'second' | 'character';

/**
 * Properties of an output that the request determines. If the delivered output differs, a warning
 * is logged.
 */
export interface ExpectedOutput {
  /** Pixels. */
  width?: number;
  height?: number;
  durationSeconds?: number;
  hasAudio?: boolean;
}

/**
 * An output that is cheaper than the requested one. It applies if the delivered output has all of
 * these properties.
 */
export interface OutputVariant {
  /** Applies to outputs without sound. */
  hasAudio?: false;
  /** Applies to outputs with fewer pixels than this. */
  pixelsBelow?: number;
  /** Discount per unit, compared with the requested output, in micro-credits. */
  unitDiscountMicro: number;
}

/** Outputs expected from a call, and the format in which they are stored. */
export interface OutputSpec {
  medium: 'image' | 'video' | 'audio' | 'json';
  /** Format that the caller requested; null if outputs are stored as delivered. */
  format: 'png' | 'jpeg' | 'webp' | null;
  /** Expected properties, compared with the delivered outputs before they are charged. */
  expected?: ExpectedOutput;
  /**
   * Cheaper outputs that the provider may deliver. If several apply, the largest discount counts.
   */
  variants?: OutputVariant[];
}

/**
 * A request to a provider. Its routes are tried in order; the next route is tried only if the
 * previous provider certainly did not accept the call.
 */
export interface PlannedCall {
  index: number;
  routes: CallRoute[];
  output: OutputSpec;
  meter: Meter;
  /** Number of requested units (see `Meter`), the most that is charged. */
  quantity: number;
  /** Price of one delivered unit, in micro-credits. */
  unitPriceMicro: number;
  /** True if the failure of this call fails the job. */
  required: boolean;
  /** How long to wait for a notification before the first status check. */
  firstCheckMs: number;
  /**
   * Earlier call whose first artifact is an input of this call, and the input field that receives
   * its URL; null if there is none.
   */
  inputFrom: { callIndex: number; field: string } | null;
}

/** Version of the plan format that this code creates and runs. */
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
  /** The caller's metadata, if the request had any. */
  metadata?: Record<string, string>;
  /** The validated request, which responses contain. Never shown in a Temporal summary. */
  request: JsonObject;
  calls: PlannedCall[];
  /**
   * How the artifacts of all calls are joined into an additional output; null if they are not
   * joined.
   */
  assembly: 'concat_audio' | null;
  /**
   * Deadline in ISO 8601. After it, cancellation is requested from the provider, and the workflow
   * waits up to `outcomeWaitMs` for the outcome.
   */
  deadlineAt: string;
  deadlineMs: number;
  /** Typical duration of the calls in seconds; null if the catalog has none. */
  typicalSeconds: number | null;
  /**
   * Task queue of the caller's webhook, and whether it reports the start of the job; null if the
   * caller has none.
   */
  webhook: { taskQueue: string; started?: true } | null;
  outcomeWaitMs: number;
  /** Interval at which the sweeper checks whether the workflow is still running. */
  reservationTtlMs: number;
}

export type StoredArtifact = z.infer<typeof storedArtifact>;

export type CallOutputs = z.infer<typeof callOutputs>;

/** Input of an activity that calls a provider: a call and one of its routes. */
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
   * Storage key of the earlier result that the call uses as input, and the input field that
   * receives its URL; null if there is none.
   */
  source: { field: string; storageKey: string } | null;
  /** Number of attempts not accepted by the provider after which the next route is tried. */
  refusalsMax: number;
}

/** Call of the plan, with the index of its route and its input from an earlier call. */
export interface RoutedCall {
  call: PlannedCall;
  routeIndex: number;
  /** Storage key of the earlier result that the call uses as input. */
  inputKey?: string | undefined;
}

const refusalsMax = 4;
/**
 * Same maximum for the last route. It is higher, so that the provider has about 15 seconds to
 * recover before the call fails.
 */
const lastRouteRefusalsMax = 6;

/**
 * Creates the activity input for a call on one of its routes; null if the call has no such route.
 */
export function createCallTask(plan: JobPlan, routed: RoutedCall): CallTask | null {
  const { call, routeIndex, inputKey } = routed;
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
