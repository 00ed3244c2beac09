/**
 * Draft plan of a request: its calls and inputs. A capability creates it, and the API completes it.
 */
import type { JsonObject } from './json.ts';
import type { ExpectedOutput, JobPlan, Meter, OutputSpec, OutputVariant } from './job-plan.ts';

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

/** Measured properties of an input. */
export interface InputMeasurements {
  /** Width in pixels; 0 for recordings. */
  width: number;
  /** Height in pixels; 0 for recordings. */
  height: number;
  /** Duration in seconds; null for pictures. */
  durationSeconds: number | null;
  /** Whether a video or recording has sound; absent for pictures. */
  hasAudio?: boolean;
}

/** Measured input, with the URL or storage reference that the provider's input contains. */
export type MeasuredInput = InputMeasurements & Pick<PlanInput, 'url'>;

/** Cheaper output that the provider may deliver instead, with its unit price in USD. */
export type DraftVariant = Omit<OutputVariant, 'unitDiscountMicro'> & { unitPriceUsd: number };

/** Properties of an output that depend on a measured input. */
export interface MeasuredOutput {
  /** Quantity in units of the call's meter; defaults to `DraftCall.quantity`. */
  quantity?: number;
  expected: ExpectedOutput;
  variants: DraftVariant[];
}

/**
 * Price that depends on inputs, which are measured before credits are reserved. The functions
 * receive the measurements in the order of `inputs`.
 */
export interface MeasuredPrice {
  inputs: readonly Required<PlanInput>[];
  /**
   * Calculates the price of one delivered unit, in USD.
   * @throws GatewayError INVALID_REQUEST if an input exceeds the limits
   */
  calculateUsd: (...inputs: InputMeasurements[]) => number;
  /** Returns the properties of the output for the measured inputs. */
  describeOutput: (...inputs: InputMeasurements[]) => MeasuredOutput;
  /** Builds the provider's input of every route; absent if it does not contain measurements. */
  buildInput?: (...inputs: MeasuredInput[]) => JsonObject;
}

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
}

/** Errors of rejected items, keyed by the field of their input; stored with the job's request. */
export type RejectedItems = Record<string, { code: string; message: string }>;

/** Draft plan of a request. */
export interface DraftPlan {
  model: string | null;
  calls: DraftCall[];
  /** All inputs; each is checked before credits are reserved. */
  inputs?: PlanInput[];
  /**
   * True if each input is a separate item with the same number of calls. If one item is rejected,
   * the others are still processed.
   */
  itemized?: true;
  /** Rejected items, whose calls were removed. */
  rejectedItems?: RejectedItems;
  assembly?: JobPlan['assembly'];
}
