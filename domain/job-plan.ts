/**
 * The job plan: everything that the workflow of a job needs, decided once by the API. A workflow
 * does not read the catalog or the configuration, so later changes to them do not affect a running
 * job.
 */
import type { z } from 'zod';
import type { BookPrice } from './book-price.ts';
import type { JsonObject } from './json.ts';
import type { callOutputs, chargeLine, storedArtifact } from './job-record.ts';
import type { OpenPrice, PipelineStep } from './pipeline-plan.ts';

/** Returns the amount of a line in micro-credits. */
export const sumLine = ({ quantity, unitPriceMicro, discountMicro }: ChargeLine): number =>
  quantity * unitPriceMicro - discountMicro;

/** Returns the sum of the lines of outputs in micro-credits, and what they cost in the catalog. */
export function sumLines(outputs: readonly Pick<CallOutputs, 'line'>[]): {
  chargeMicro: number;
  costMicro: number;
} {
  const lines = outputs.flatMap(({ line }) => line ?? []);
  return {
    chargeMicro: lines.reduce((sum, line) => sum + sumLine(line), 0),
    costMicro: lines.reduce(
      (sum, { quantity, unitCostMicro, costDiscountMicro }) =>
        sum + quantity * unitCostMicro - costDiscountMicro,
      0,
    ),
  };
}

/**
 * Adds to each output the line of its charge, which exceeds the price in the plan only if a provider
 * reports more than was measured (`PlannedCall.quantityMax`). If the result of a call is the input of
 * other calls, it is charged only if each of them delivered an artifact. A call that is not charged has
 * no line.
 */
export function addLines(
  calls: readonly PlannedCall[],
  outputs: readonly CallOutputs[],
): CallOutputs[] {
  const byIndex = new Map(outputs.map((output) => [output.callIndex, output]));
  const hasArtifact = (index: number): boolean => (byIndex.get(index)?.artifacts.length ?? 0) > 0;
  const plannedCalls = new Map(calls.map((call) => [call.index, call]));
  return outputs.map((output) => {
    const call = plannedCalls.get(output.callIndex);
    if (!call || output.delivered === 0) return output;
    const isCharged = calls
      .filter((other) => other.inputFrom?.callIndex === call.index)
      .every((other) => hasArtifact(other.index));
    return isCharged ? { ...output, line: createLine(call, output) } : output;
  });
}

function createLine(call: PlannedCall, output: CallOutputs): ChargeLine {
  const { unitPriceMicro, unitCostMicro = unitPriceMicro, book } = call;
  const { discountMicro = 0, costDiscountMicro = discountMicro } = output;
  return {
    unit:
      call.meter !== 'artifact' ? call.meter : call.output.medium === 'image' ? 'image' : 'request',
    quantity: Math.min(output.delivered, call.quantityMax ?? call.quantity),
    unitPriceMicro,
    discountMicro,
    unitCostMicro,
    costDiscountMicro,
    ...(book && { row: book.row }),
  };
}

/** Route of a call: provider, provider endpoint, and request body in the provider's format. */
export interface CallRoute {
  provider: string;
  /** Temporal task queue of the provider's calls. */
  taskQueue: string;
  /** Endpoint of the provider, for example fal's endpoint id. */
  providerEndpoint: string;
  /** Request body in the provider's format. */
  input: JsonObject;
  /**
   * True if the provider sends a notification when the call ends. It sends the notification even if
   * its response to the submit was lost.
   */
  notifies: boolean;
  /** Timeout of a submit in milliseconds. When it expires, the outcome of the call is unknown. */
  submitTimeoutMs: number;
}

/**
 * Unit in which a call is charged. `artifact`: a delivered output. `second`: a second of the
 * processed or generated media, rounded up. `character`: a character of the input; all characters
 * are charged if the output is delivered.
 */
export type Meter = 'artifact' | 'second' | 'character';

/**
 * Properties of an output that follow from the request. If the delivered output has other
 * properties, a warning is logged.
 */
export interface ExpectedOutput {
  /** Width of the output in pixels. */
  width?: number;
  /** Height of the output in pixels. */
  height?: number;
  durationSeconds?: number;
  hasAudio?: boolean;
}

/**
 * Variant of an output that costs less than the requested output. A delivered output is this
 * variant if it has all of these properties.
 */
export interface OutputVariant {
  /** False if only an output without sound is this variant; absent if sound does not matter. */
  hasAudio?: false;
  /** Only outputs with fewer pixels than this are this variant; absent if pixels do not matter. */
  pixelsBelow?: number;
  /** Discount on the price of each unit, in micro-credits. */
  unitDiscountMicro: number;
  /** Discount on the catalog's price of each unit; absent in plans of older versions. */
  unitCostDiscountMicro?: number;
}

/** Outputs of a call: medium, stored format, and expected properties. */
export interface OutputSpec {
  medium: 'image' | 'video' | 'audio' | 'json';
  /** Requested format, to which outputs are converted; null if they are stored as delivered. */
  format: 'png' | 'jpeg' | 'webp' | null;
  /** Model of these outputs; absent if it is the model of the job. */
  model?: string;
  /** True if a picture or film of the caller is part of the outputs. */
  hasCallerMedia?: true;
  /** Expected properties, compared with the delivered outputs before they are charged. */
  expected?: ExpectedOutput;
  /**
   * Cheaper variants of the output that the provider may deliver. If an output matches several
   * variants, the largest discount applies.
   */
  variants?: OutputVariant[];
}

/** Properties of an output that its mark as generated media contains. */
export interface OutputMark {
  model: string | null;
  hasCallerMedia: boolean;
}

/**
 * Area of a mask that is edited: where it is white, or where it is transparent, whatever its colors.
 * By default a mask with transparent pixels is edited where it is transparent, another where it is
 * white.
 */
export type MaskArea = 'white' | 'transparent';

/**
 * Call of a plan: one request to a provider. Its routes are tried in order. The next route is tried
 * only if the provider of the previous route certainly did not accept the call.
 */
export interface PlannedCall {
  index: number;
  routes: CallRoute[];
  output: OutputSpec;
  meter: Meter;
  /** Number of requested units (`Meter`), which the reservation pays for. */
  quantity: number;
  /**
   * Maximum number of units that are charged if the provider reports more than were measured.
   * Absent: at most `quantity`.
   */
  quantityMax?: number;
  /** Price of one delivered unit, in micro-credits. */
  unitPriceMicro: number;
  /** Price of the unit in the catalog; absent in plans of older versions. */
  unitCostMicro?: number;
  /** Price of the price book; absent if the catalog's price applies. */
  book?: BookPrice;
  /** True if the job fails when this call fails. */
  required: boolean;
  /** Area of the mask that is edited; absent if the mask decides (`MaskArea`). */
  maskArea?: MaskArea;
  /** Time to wait for a notification before the first status check, in milliseconds. */
  firstCheckMs: number;
  /**
   * Input from an earlier call: the index of that call, and the input field that receives the URL
   * of its first artifact. Null if this call needs no earlier call.
   */
  inputFrom: { callIndex: number; field: string } | null;
  /** Price that the result of an earlier step of the pipeline completes. */
  open?: OpenPrice;
}

/** Version of the plan format that this code creates and runs. */
export const planVersion = 1;
/**
 * Version of plans with approvals. A worker of version 0.1.0 would run their steps without a decision,
 * so it must not run them.
 */
export const approvalPlanVersion = 2;
/**
 * Version of plans of chat jobs, which have no calls. A worker of version 0.1.0 would run them as Studio
 * jobs that deliver nothing.
 */
export const chatPlanVersion = 3;
/**
 * Version of plans whose steps are measured and have a price of the price book. A worker of version 0.1.0
 * would price them by the catalog.
 */
export const bookPlanVersion = 4;
/** Versions of plans of Studio jobs that this code runs. */
export const planVersions: readonly number[] = [planVersion, approvalPlanVersion, bookPlanVersion];

/** Plan of a Studio job, or of a chat job (`chatJobType`), which has no calls. */
export interface JobPlan {
  planVersion: number;
  jobId: string;
  organizationId: string;
  keyId: string;
  /** Browser token of the request; absent if it had an API key. The ledger reads it (end-user-limits.sql). */
  tokenId?: string;
  requestId: string;
  /** Temporal workflow type, e.g. `imageGenerate`. */
  type: string;
  model: string | null;
  /** Reserved micro-credits: the sum of quantity × unit price of all calls. */
  priceMicro: number;
  /** Time of the prices in Unix milliseconds; absent in plans of older versions. */
  pricedAtMs?: number;
  /** Metadata of the caller; absent if the request has none. */
  metadata?: Record<string, string>;
  /** Recipe of the request, as `name@version`; absent if it has none. */
  recipe?: string;
  /** Validated request of the caller, which responses contain. Never part of a Temporal summary. */
  request: JsonObject;
  calls: PlannedCall[];
  /** Job that a resumed pipeline continues; absent in other jobs. */
  parentJobId?: string;
  /** Steps of a pipeline, in an order in which each follows those whose results it takes. */
  steps?: PipelineStep[];
  /**
   * Method of joining the artifacts of all calls into an additional output; null if they are not
   * joined.
   */
  assembly: 'concat_audio' | null;
  /**
   * Deadline of the job in ISO 8601. When it passes, the workflow requests cancellation from the
   * provider, and then waits up to `outcomeWaitMs` for the outcome.
   */
  deadlineAt: string;
  deadlineMs: number;
  /** Sum of the typical seconds of the calls; null if the catalog lacks one of them. */
  typicalSeconds: number | null;
  /**
   * Webhooks about the job: their task queue, `started` if one reports the start of the job, and the
   * ids of those to webhook endpoints. Without `subjectIds`, the request named the URL. Null if no
   * webhook reports the job.
   */
  webhook: { taskQueue: string; started?: true; subjectIds?: string[] } | null;
  outcomeWaitMs: number;
  /** Milliseconds between the sweeper's checks whether the workflow is still running. */
  reservationTtlMs: number;
  /** Task queue of the answer of a chat job; absent in other jobs. */
  chatTaskQueue?: string;
  /** True for an item of a bulk job, which lets single jobs go first. */
  inBulk?: true;
}

export type StoredArtifact = z.infer<typeof storedArtifact>;

export type CallOutputs = z.infer<typeof callOutputs>;

export type ChargeLine = z.infer<typeof chargeLine>;

/** Input of an activity that calls a provider: a call and one of its routes. */
export interface CallInput {
  jobId: string;
  organizationId: string;
  callIndex: number;
  /** Model of the job; absent in calls that an older version planned. */
  model?: string | null;
  routeIndex: number;
  route: CallRoute;
  output: OutputSpec;
  meter: Meter;
  quantity: number;
  quantityMax?: number;
  maskArea?: MaskArea;
  /**
   * Input from an earlier call: the storage key of the artifact, and the input field that receives
   * its URL. Null if the call needs no earlier call.
   */
  source: { field: string; storageKey: string } | null;
  /** Maximum number of attempts on the task queue that the provider does not accept. */
  submitAttemptsMax: number;
  /** True if the outputs are recorded when they are stored, so that the job shows them. */
  recordsOutputs?: true;
}

/** Call of the plan on one of its routes, with its input from an earlier call. */
export interface RoutedCall {
  call: PlannedCall;
  routeIndex: number;
  /** Storage key of the artifact of an earlier call that this call uses as input. */
  inputKey?: string | undefined;
}

const submitAttemptsMax = 4;
/**
 * Maximum number of attempts on the last route. It is larger than on the other routes, so that the
 * provider has about 15 seconds to recover before the call fails.
 */
const lastRouteSubmitAttemptsMax = 6;

/**
 * Creates the input of an activity that calls a provider; null if the call has no route with this
 * index.
 */
export function createCallInput(plan: JobPlan, routed: RoutedCall): CallInput | null {
  const { call, routeIndex, inputKey } = routed;
  const route = call.routes[routeIndex];
  if (!route) return null;
  return {
    jobId: plan.jobId,
    organizationId: plan.organizationId,
    callIndex: call.index,
    model: plan.model,
    routeIndex,
    route,
    output: call.output,
    meter: call.meter,
    quantity: call.quantity,
    ...(call.quantityMax !== undefined && { quantityMax: call.quantityMax }),
    ...(call.maskArea && { maskArea: call.maskArea }),
    source:
      call.inputFrom && inputKey !== undefined
        ? { field: call.inputFrom.field, storageKey: inputKey }
        : null,
    submitAttemptsMax:
      routeIndex === call.routes.length - 1 ? lastRouteSubmitAttemptsMax : submitAttemptsMax,
    ...(plan.steps && { recordsOutputs: true as const }),
  };
}
