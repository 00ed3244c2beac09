/**
 * The job plan: everything a running workflow needs, decided once by the API. A workflow never reads
 * the catalog or the configuration, so a plan made yesterday runs the same today (design §3.1).
 */
import type { z } from 'zod';
import type { JsonObject } from '../domain/json.ts';
import type { callOutputs, storedArtifact } from './job-record.ts';

/** One way to have a call answered: which provider, which of its operations, with what body. */
export interface CallRoute {
  provider: string;
  /** Temporal task queue on which this provider's calls run. */
  taskQueue: string;
  /** The provider's own name of the operation, e.g. fal's endpoint id. */
  operation: string;
  /** Body in the provider's own words. */
  input: JsonObject;
  /** The provider tells later how it ended, even when its answer to the submit was lost. */
  notifies: boolean;
  /** After this the outcome of a submit is unknown. */
  submitTimeoutMs: number;
}

/**
 * What a call's quantity counts. `artifact`: outputs delivered; `second`: seconds of the one output,
 * whole ones, rounded up; `character`: characters sent, all paid for once the one output is there.
 */
export type Meter = 'artifact' | 'second' | 'character';

/** What an output is to be, as far as the request decides it; what comes otherwise is logged. */
export interface ExpectedOutput {
  /** Pixels. */
  width?: number;
  height?: number;
  durationSeconds?: number;
  hasAudio?: boolean;
}

/** An output that is less than was asked for: all that is named applies to it. */
export interface OutputVariant {
  /** It has no sound. */
  hasAudio?: false;
  /** It has fewer pixels than this. */
  pixelsBelow?: number;
  /** Micro-credits by which a unit of it is cheaper than the one that was asked for. */
  unitDiscountMicro: number;
}

/** What is expected back from a call, and how it is kept. */
export interface OutputSpec {
  medium: 'image' | 'video' | 'audio' | 'json';
  /** Format that the caller was promised when the provider may answer in another. */
  format: 'png' | 'jpeg' | 'webp' | null;
  /** Held against what came, before the charge. */
  expected?: ExpectedOutput;
  /** Of those that apply to an output the cheapest is charged. */
  variants?: OutputVariant[];
}

/** One request to a provider. Routes are tried in order, the next only when the last was refused. */
export interface PlannedCall {
  index: number;
  routes: CallRoute[];
  output: OutputSpec;
  meter: Meter;
  /** Units asked for, the most that are charged; artifacts, unless the meter says otherwise. */
  quantity: number;
  /** Micro-credits of one delivered unit. */
  unitPriceMicro: number;
  /** Without this call's result the others are worth nothing: its failure fails the job. */
  required: boolean;
  /** Milliseconds before the provider is first asked how far it is, when it has not notified. */
  firstCheckMs: number;
  /** The call works on the first artifact of an earlier call, named in this field of its input. */
  inputFrom: { callIndex: number; field: string } | null;
}

/** The version of the plan's shape that this code makes and runs. */
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
  /** Micro-credits reserved: the sum of quantity × unit price over the calls. */
  priceMicro: number;
  /** The caller's own pairs; absent where there are none. */
  metadata?: Record<string, string>;
  /** The validated request, kept for the answer; never shown in the Temporal UI's summaries. */
  request: JsonObject;
  calls: PlannedCall[];
  /** What is made of the calls' artifacts before the charge; its result is one more output. */
  assembly: 'concat_audio' | null;
  /** ISO 8601; after it the job is canceled at the provider and its verdict awaited. */
  deadlineAt: string;
  deadlineMs: number;
  /** The caller is told of the end, by attempts on this task queue; null: nobody is. */
  webhook: { taskQueue: string } | null;
  outcomeWaitMs: number;
  /** After this the sweeper asks whether the workflow still runs. */
  reservationTtlMs: number;
}

export type StoredArtifact = z.infer<typeof storedArtifact>;

export type CallOutputs = z.infer<typeof callOutputs>;

/** One call by one of its routes. */
export interface CallTask {
  jobId: string;
  organizationId: string;
  callIndex: number;
  routeIndex: number;
  route: CallRoute;
  output: OutputSpec;
  meter: Meter;
  quantity: number;
  /** The earlier result that the call works on, and the input field that is to name it. */
  source: { field: string; storageKey: string } | null;
  /** Attempts after which "not now" of the provider counts as "no": the next route's turn. */
  refusalsMax: number;
}

/** Which of a plan's calls, by which route, and on what. */
export interface CallChoice {
  call: PlannedCall;
  routeIndex: number;
  /** Storage key of the earlier result that the call works on, if it does. */
  inputKey?: string | undefined;
}

const refusalsMax = 4;
/** Without another route to try, a provider may take a quarter of a minute to come back. */
const lastRouteRefusalsMax = 6;

/** The task of a call; null when the plan has no such route. */
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

/** Micro-credits of what was delivered and is of use; at most the plan's price. */
export function chargeMicroOf(plan: JobPlan, outputs: readonly CallOutputs[]): number {
  return plan.calls.reduce((sum, call) => {
    if (!wasOfUse(plan, outputs, call.index)) return sum;
    const { delivered = 0, discountMicro = 0 } = outputs[call.index] ?? {};
    return sum + Math.min(delivered, call.quantity) * call.unitPriceMicro - discountMicro;
  }, 0);
}

/** A step is paid for together with what was made from it. */
function wasOfUse(plan: JobPlan, outputs: readonly CallOutputs[], callIndex: number): boolean {
  return plan.calls
    .filter((call) => call.inputFrom?.callIndex === callIndex)
    .every((call) => (outputs[call.index]?.artifacts.length ?? 0) > 0);
}
