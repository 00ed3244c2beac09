/**
 * Interface of a Studio capability: path, request schema, plan and presentation, in one file per
 * capability. API, workflows, ledger and storage use capabilities only through this interface.
 */
import type { z } from 'zod';
import type { AudioModel } from '../catalog/audio-models.ts';
import type { CatalogRow, ParameterRules } from '../catalog/model-parameters.ts';
import { audioPriceRules, type PriceRule } from '../catalog/price-rules.ts';
import type { Json, JsonObject } from '../domain/json.ts';
import type {
  CallOutputs,
  ExpectedOutput,
  JobPlan,
  Meter,
  OutputSpec,
  OutputVariant,
  StoredArtifact,
} from '../jobs/job-plan.ts';

/** Route before the API adds the task queue of its provider. */
export interface DraftRoute {
  provider: string;
  providerEndpoint: string;
  input: JsonObject;
}

/** Input of a request that the provider reads: a URL, or the id of an uploaded file. */
export interface PlanInput {
  /** Path of the request field, e.g. `imageUrls.0`. */
  field: string;
  /** URL or file id, as the inputs of the calls contain it. */
  url: string;
  /** Medium that the field accepts; absent if it accepts several. */
  medium?: 'image' | 'audio' | 'video';
}

/** Measured properties of an input. */
export interface InputFacts {
  /** Width in pixels. */
  width: number;
  /** Height in pixels. */
  height: number;
  /** Duration in seconds; null for pictures. */
  durationSeconds: number | null;
}

/** Output that is cheaper than the requested one, with its unit price in USD. */
export type DraftVariant = Omit<OutputVariant, 'unitDiscountMicro'> & { unitPriceUsd: number };

/** Properties of an output that follow from a measured input. */
export interface MeasuredOutput {
  /** Quantity in units of the call's meter; if absent, `DraftCall.quantity` applies. */
  quantity?: number;
  expected: ExpectedOutput;
  variants: DraftVariant[];
}

/** Price that depends on an input, which is measured before the reservation. */
export interface MeasuredPrice {
  input: PlanInput & { medium: 'image' | 'video' };
  /**
   * Calculates the price of one delivered unit, in USD.
   * @throws GatewayError INVALID_REQUEST if the input exceeds the limits
   */
  usdOf: (facts: InputFacts) => number;
  /** Returns the properties of the output for a measured input. */
  outputOf: (facts: InputFacts) => MeasuredOutput;
}

/** Planned call, before the API calculates its price in micro-credits. */
export interface DraftCall {
  routes: DraftRoute[];
  output: OutputSpec;
  /** Unit of `quantity`; `artifact` if absent. */
  meter?: Meter;
  quantity: number;
  /** Price of one delivered unit in USD, from the catalog. */
  unitPriceUsd: number | MeasuredPrice;
  /** Typical duration of a queued call in seconds; absent if unknown. */
  typicalSeconds?: number;
  /** Note for callers about the price. */
  priceNote?: string | undefined;
  /** Cheaper outputs that the provider may deliver instead of the requested one. */
  variants?: DraftVariant[];
  /** True if the failure of this call fails the job. */
  required: boolean;
  /**
   * Index of the earlier call whose result is the input of this call, and the field of each route's
   * input that receives it.
   */
  inputFrom?: { callIndex: number; field: string };
}

/**
 * Errors of rejected items of a request, by the field of their input; stored with the job's
 * request.
 */
export type RefusedItems = Record<string, { code: string; message: string }>;

/** Draft plan of a request: made by the capability, completed by the API. */
export interface DraftPlan {
  model: string | null;
  calls: DraftCall[];
  /** All inputs, which are checked before the reservation. */
  inputs?: PlanInput[];
  /**
   * True if each input is an item with the same number of calls, and the rejection of an item does
   * not reject the others.
   */
  itemized?: true;
  /** Rejected items, whose calls were removed. */
  refusedItems?: RefusedItems;
  assembly?: JobPlan['assembly'];
}

/** Finished job, as `present` receives it. */
export interface FinishedJob {
  request: JsonObject;
  model: string | null;
  outputs: CallOutputs[];
  /** Returns a URL of a stored artifact, signed for this response. */
  urlOf: (artifact: StoredArtifact) => string;
  /** Time at which the URLs of this response expire, in ISO 8601. */
  urlsEndAt: string;
  /** True if the result was not persisted and has expired, so that it has no URLs. */
  urlsHaveEnded: boolean;
  /** Returns the content of a JSON artifact; null in a list of jobs. */
  documentOf: (artifact: StoredArtifact) => Json;
}

/** Recording that a request names by URL or file id. */
export interface RecordingSource {
  /** Path of the request field, for error messages. */
  field: string;
  /** URL or file id. */
  source: string;
}

/**
 * Recording that was checked and, if it is a stored file, measured before its request is priced.
 */
export type Recording =
  | { kind: 'file'; storageKey: string; durationSeconds: number }
  /** URL that only the provider reads; the duration is known when the call is complete. */
  | { kind: 'url'; url: string };

/**
 * Model or service in the response of GET /studio/models, with the rules by which requests are
 * validated and priced.
 */
export interface PublishedModel extends Omit<CatalogRow, 'typicalSeconds'> {
  /** Typical duration of a call in seconds; null if it is not known. */
  typicalSeconds: number | null;
  /** Request fields that select the model; empty if the capability has only one. */
  selectedBy: Readonly<Record<string, string>>;
  parameters: ParameterRules;
  /** Price rules in USD; the price is their sum. */
  price: readonly PriceRule[];
}

/** Studio endpoint; `Request` is the type of the parsed body. */
interface Definition<Request> {
  /** Temporal workflow type; also the job's `type`. */
  type: string;
  /** Path below /api/v1, e.g. `/studio/image/generate`. */
  path: `/studio/${string}`;
  /** Medium of the output; the scope that a key needs follows from it. */
  medium: 'image' | 'video' | 'audio';
  /** Summary in the API reference. */
  summary: string;
  /** `bare`: the response is the data without the envelope, with the credits in headers. */
  envelope?: 'bare';
  request: z.ZodType<Request>;
  /**
   * File part that a multipart/form-data request may contain; the request receives its id as
   * `fileId`.
   */
  upload?: { field: string; bytesMax: number };
  /** Returns the recording that a request names; its duration decides the price. */
  recording?: (request: Request) => RecordingSource;
  /** Valid request for the API reference. */
  example: Record<string, unknown>;
  /** Schema of the `data` that `present` returns. */
  data: z.ZodType;
  /** Models or services that a request may name, the default first. */
  models?: readonly PublishedModel[];
  /**
   * Plans the calls of a request, with providers and prices.
   * @throws GatewayError UNKNOWN_MODEL, UNSUPPORTED_PARAMETER, CONFLICTING_FIELDS, INVALID_REQUEST
   */
  plan: (request: Request, recording?: Recording) => DraftPlan;
  /**
   * Returns whether the result is persisted; always true if absent. A result that is not persisted
   * can be read for an hour.
   */
  keeps?: (request: JsonObject) => boolean;
  /** Makes the `data` of the response (spec §4.6). */
  present: (job: FinishedJob) => Record<string, unknown>;
}

/** Capability without its request type, which only the file of the capability uses. */
export type Capability = Definition<JsonObject>;

/** Returns the scope that a caller's key needs. */
export function scopeOf({ medium }: Pick<Capability, 'medium'>): `studio:${Capability['medium']}` {
  return `studio:${medium}`;
}

/**
 * Returns whether the 202 response is sent immediately: for `async` requests, and for videos, which
 * take minutes.
 */
export function answersLater({ medium }: Pick<Capability, 'medium'>, request: JsonObject): boolean {
  return medium === 'video' || request['async'] === true;
}

/** Declares a capability; `plan` receives the parsed request. */
export function defineCapability<Request>(definition: Definition<Request>): Capability {
  // oxlint-disable-next-line no-unsafe-type-assertion -- `plan` only receives requests that `request` parsed
  return definition as unknown as Capability;
}

interface Publishing<Row> {
  /** Returns the request fields that select a row; `model` if absent. */
  selectedBy?: (row: Row) => PublishedModel['selectedBy'];
  /** Returns the parameters of a row; none if absent. */
  parameters?: (row: Row) => ParameterRules;
  /** Returns the price rules of a row. */
  price: (row: Row) => readonly PriceRule[];
}

/** Publishes the rows of a model table with the parameters and prices of one capability. */
export function publishModels<
  Row extends Omit<CatalogRow, 'typicalSeconds'> & { typicalSeconds?: number },
>(
  rows: readonly Row[],
  { selectedBy = ({ id }) => ({ model: id }), parameters = () => ({}), price }: Publishing<Row>,
): PublishedModel[] {
  return rows.map((row) => ({
    id: row.id,
    displayName: row.displayName,
    servedBy: row.servedBy,
    typicalSeconds: row.typicalSeconds ?? null,
    selectedBy: selectedBy(row),
    parameters: parameters(row),
    price: price(row),
  }));
}

/** Publishes the only model of an audio capability; `quantity` is the priced part of a request. */
export function publishAudioModel(
  model: AudioModel,
  quantity?: PriceRule['quantity'],
): PublishedModel {
  return {
    id: model.id,
    displayName: model.displayName,
    servedBy: model.displayName,
    typicalSeconds: null,
    selectedBy: {},
    parameters: {},
    price: audioPriceRules(model, quantity),
  };
}
