/**
 * Draft plan of a request: its calls and inputs. A capability creates it, and the API completes it.
 */
import type { JsonObject } from './json.ts';
import type { JobPlan, MaskArea, Meter, OutputSpec, OutputVariant } from './job-plan.ts';
import type { InputMeasurements, MeasuredInput, MeasuredRule } from './measured-price.ts';
import type { StepOutput } from './job-record.ts';
import type { OpenPrice, PipelineStep, StepReference, TakenOutputs } from './pipeline-plan.ts';

/** Route to which the API has not yet added the task queue of the provider. */
export interface DraftRoute {
  provider: string;
  providerEndpoint: string;
  input: JsonObject;
}

/** Input of a request that the provider reads: a URL, or the id of an uploaded file. */
export interface PlanInput {
  /** Path of the request field, e.g. `imageUrls.0`. */
  field: string;
  /** URL or file id, exactly as it appears in the inputs of the calls. */
  url: string;
  /** Medium that the field accepts; omit if it accepts every medium. */
  medium?: 'image' | 'audio' | 'video';
}

/** Recording that a request refers to by URL or file id. */
export interface RecordingSource {
  /** Path of the request field, for error messages. */
  field: string;
  /** URL or file id. */
  source: string;
}

/** Recording that has been checked; a stored file has also been measured. */
export type Recording =
  | {
      kind: 'file';
      storageKey: string;
      durationSeconds: number;
      sizeBytes: number;
      /** Type by the bytes of the file. */
      type: { extension: string; contentType: string };
    }
  /** Recording that only the provider reads; its duration is known after the call. */
  | { kind: 'url'; url: string };

/** Cheaper output that the provider may deliver instead, with its unit price in USD. */
export type DraftVariant = Omit<OutputVariant, 'unitDiscountMicro' | 'unitCostDiscountMicro'> & {
  unitPriceUsd: number;
};

/** Price that depends on inputs, which are measured before credits are reserved. */
export interface MeasuredPrice {
  inputs: readonly Required<PlanInput>[];
  rule: MeasuredRule;
}

/** Measurements that an output is planned to have. `pixelsMax` bounds a size that is not known. */
export type PlannedMeasurements = Partial<InputMeasurements> & { pixelsMax?: number };

/** Planned call, before the API calculates its price in micro-credits. */
export interface DraftCall {
  routes: DraftRoute[];
  output: OutputSpec;
  /** Unit of `quantity`; defaults to `artifact`. */
  meter?: Meter;
  quantity: number;
  /** Maximum number of units that may be charged (`PlannedCall.quantityMax`). */
  quantityMax?: number;
  /** Price of one delivered unit in USD, from the catalog. */
  unitPriceUsd: number | MeasuredPrice;
  /** Typical duration of a queued call in seconds; absent if unknown. */
  typicalSeconds?: number;
  /** Note for callers about the price. */
  priceNote?: string | undefined;
  /** Cheaper outputs that the provider may deliver instead of the requested one. */
  variants?: DraftVariant[];
  /** Whether a failure of this call fails the job. */
  required: boolean;
  /**
   * Earlier call whose result is the input of this call: `callIndex` is its index, and `field` is
   * the input field, in each route, that receives the result.
   */
  inputFrom?: { callIndex: number; field: string };
  /**
   * Measurements of the output that the request determines, for the prices of later steps of a
   * pipeline, beside `output.expected`.
   */
  planned?: PlannedMeasurements;
  /** Input whose width and height the output has: its URL or file id. */
  sizeOf?: string;
  /** Area of the mask that is edited (`PlannedCall.maskArea`). */
  maskArea?: MaskArea;
  /**
   * Inputs of a price that depends on results of earlier steps: those that are measured already, and
   * null for results of earlier steps.
   */
  known?: (MeasuredInput | null)[];
  /** Price that the result of an earlier step of the pipeline completes. */
  open?: DraftOpenPrice;
}

/** Price of a call that the result of an earlier step completes, before it is in micro-credits. */
export interface DraftOpenPrice {
  price: OpenPrice;
  /** Units that the earlier step is planned to deliver, and their price in USD; null if not known. */
  expected: { quantity: number; unitUsd: number } | null;
}

/** Step of a pipeline in a draft plan; its calls are a part of the calls of the plan. */
export interface DraftStep {
  id: string;
  /** Path of the capability below /studio, e.g. `image/generate`. */
  use: string;
  type: string;
  medium: 'image' | 'video' | 'audio';
  model: string | null;
  /** Index of the first call, and number of calls. */
  calls: [first: number, count: number];
  assembly: JobPlan['assembly'];
  outputs: StepOutput[];
  taken?: TakenOutputs;
  /** Ids of the earlier steps whose results this step takes. */
  after: string[];
  references: StepReference[];
  /** Maximum price of the step in credits; null if the request sets none. */
  maxCredits: number | null;
  approval?: PipelineStep['approval'];
}

/** Errors of rejected items, keyed by the field of their input; stored with the job's request. */
export type RejectedItems = Record<string, { code: string; message: string }>;

/** Draft plan of a request. */
export interface DraftPlan {
  model: string | null;
  calls: DraftCall[];
  /** All inputs; each is checked before credits are reserved. */
  inputs?: PlanInput[];
  /** Recordings to find, and the plan with those that were found; absent if there are none. */
  recordings?: {
    sources: readonly RecordingSource[];
    complete: (found: readonly Recording[]) => DraftPlan;
  };
  /**
   * True if each input is a separate item with the same number of calls. If one item is rejected,
   * the others are still processed.
   */
  itemized?: true;
  /** Rejected items, whose calls were removed. */
  rejectedItems?: RejectedItems;
  assembly?: JobPlan['assembly'];
  /** Steps of a pipeline, in the order of the request. */
  steps?: DraftStep[];
  /** Maximum price in credits; absent if the request sets none. */
  maxCredits?: number;
  /** Job that a resumed pipeline continues. */
  parentJobId?: string;
}
