/**
 * A Studio capability: path, request, plan and presentation of one kind of work, in one file. The API,
 * the workflow, the ledger and the storage know capabilities only through this interface.
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

/** A route before the API adds the task queue of its provider. */
export interface DraftRoute {
  provider: string;
  operation: string;
  input: JsonObject;
}

/** A URL, or the id of an uploaded file, that a request asks a provider to read. */
export interface PlanInput {
  /** The request field, as in `imageUrls.0`. */
  field: string;
  /** As it stands in the calls' inputs. */
  url: string;
  /** What the field takes, where it takes one medium only. */
  medium?: 'image' | 'audio' | 'video';
}

/** What an input turned out to be. */
export interface InputFacts {
  /** Pixels. */
  width: number;
  height: number;
  /** Null for pictures. */
  durationSeconds: number | null;
}

/** An output that is less than was asked for, and USD of a unit of it. */
export type DraftVariant = Omit<OutputVariant, 'unitDiscountMicro'> & { unitPriceUsd: number };

/** What a measured input says of the output. */
export interface MeasuredOutput {
  /** Units of the call's meter; absent: what the call says. */
  quantity?: number;
  expected: ExpectedOutput;
  variants: DraftVariant[];
}

/** A price that depends on an input, which is measured before anything is reserved. */
export interface MeasuredPrice {
  input: PlanInput & { medium: 'image' | 'video' };
  /**
   * USD of one delivered unit.
   * @throws GatewayError INVALID_REQUEST when the input is beyond the limits.
   */
  usdOf: (facts: InputFacts) => number;
  outputOf: (facts: InputFacts) => MeasuredOutput;
}

/** A call before it is priced in micro-credits. */
export interface DraftCall {
  routes: DraftRoute[];
  output: OutputSpec;
  /** What `quantity` counts; artifacts when absent. */
  meter?: Meter;
  quantity: number;
  /** USD of one delivered unit, from the catalog. */
  unitPriceUsd: number | MeasuredPrice;
  /** Seconds it takes as a rule, where a provider queues it; unknown when absent. */
  typicalSeconds?: number;
  /** What is to be said of the price before it is paid. */
  priceNote?: string | undefined;
  /** Cheaper ones that may come instead of the output that was asked for. */
  variants?: DraftVariant[];
  /** Without this call's result the others are worth nothing. */
  required: boolean;
  /** The call works on the result of an earlier one, named in this field of every route's input. */
  inputFrom?: { callIndex: number; field: string };
}

/** Why items of a request are not worked on, by the field of their input; the job's request keeps it. */
export type RefusedItems = Record<string, { code: string; message: string }>;

/** What a request comes to: decided by the capability, completed by the API. */
export interface DraftPlan {
  model: string | null;
  calls: DraftCall[];
  /** Everything that is to be read: checked before anything is reserved. */
  inputs?: PlanInput[];
  /** Each input is an item with calls of its own, as many as the others: it is refused alone. */
  itemized?: true;
  /** Items that were refused and have no calls any more. */
  refusedItems?: RefusedItems;
  assembly?: JobPlan['assembly'];
}

/** What a finished job is shown from. */
export interface FinishedJob {
  request: JsonObject;
  model: string | null;
  outputs: CallOutputs[];
  /** A readable URL of a stored artifact, signed anew for this answer. */
  urlOf: (artifact: StoredArtifact) => string;
  /** When the URLs of this answer end, ISO 8601. */
  urlsEndAt: string;
  /** The result was not to be kept, and its time is over: there are no URLs any more. */
  urlsHaveEnded: boolean;
  /** The content of a JSON artifact; null where a job is one of many, and a document too much. */
  documentOf: (artifact: StoredArtifact) => Json;
}

/** A recording that a request names by URL or file id, or brings along. */
export interface RecordingSource {
  /** The request field, for errors. */
  field: string;
  source: string;
}

/** A recording that was looked at before its request is priced. */
export type Recording =
  | { kind: 'file'; storageKey: string; durationSeconds: number }
  /** Read by the provider; its length is known when it is done. */
  | { kind: 'url'; url: string };

/** A model, or service, that a request may name, as GET /studio/models tells it: by the very rules that requests are checked and priced by. */
export interface PublishedModel extends Omit<CatalogRow, 'typicalSeconds'> {
  /** The fields of a request that ask for it; none where there is no other. */
  selectedBy: Readonly<Record<string, string>>;
  parameters: ParameterRules;
  /** USD; the sum of them. */
  price: readonly PriceRule[];
}

/** One Studio endpoint; `Request` is the parsed body. */
interface Definition<Request> {
  /** Temporal workflow type; also the job's `type`. */
  type: string;
  /** Path below /api/v1, e.g. `/studio/image/generate`. */
  path: `/studio/${string}`;
  /** What is made; a caller's key needs the scope of it. */
  medium: 'image' | 'video' | 'audio';
  /** One line of the API reference. */
  summary: string;
  /** `bare`: the data is the whole answer, and the credits are told in headers. */
  envelope?: 'bare';
  request: z.ZodType<Request>;
  /** A file that may come as multipart/form-data; its id is given to the request as `fileId`. */
  upload?: { field: string; bytesMax: number };
  /** The recording that the request is about; its length decides the price. */
  recording?: (request: Request) => RecordingSource;
  /** A request that works, shown in the API reference. */
  example: Record<string, unknown>;
  /** The `data` that `present` makes, described. */
  data: z.ZodType;
  /** What a request may name as its model or service, the default first. */
  models?: readonly PublishedModel[];
  /**
   * Decides provider, calls and prices.
   * @throws GatewayError UNKNOWN_MODEL, UNSUPPORTED_PARAMETER, CONFLICTING_FIELDS, INVALID_REQUEST
   */
  plan: (request: Request, recording?: Recording) => DraftPlan;
  /** Whether the result is to be kept; absent: always. One that is not can be read for an hour. */
  keeps?: (request: JsonObject) => boolean;
  /** The `data` of the answer (spec §4.6). */
  present: (job: FinishedJob) => Record<string, unknown>;
}

/** A capability whose request type nobody outside its file needs to know. */
export type Capability = Definition<JsonObject>;

/** The scope that a caller's key needs. */
export function scopeOf({ medium }: Pick<Capability, 'medium'>): `studio:${Capability['medium']}` {
  return `studio:${medium}`;
}

/** Whether the answer is 202 at once: the caller asked for that, or it is a film, which takes minutes. */
export function answersLater({ medium }: Pick<Capability, 'medium'>, request: JsonObject): boolean {
  return medium === 'video' || request['async'] === true;
}

/** Declares a capability: `plan` is given exactly what `request` parses. */
export function defineCapability<Request>(definition: Definition<Request>): Capability {
  // oxlint-disable-next-line no-unsafe-type-assertion -- `plan` is only ever given what `request` parsed
  return definition as unknown as Capability;
}

interface Publishing<Row> {
  /** The fields that name a row; `model` where absent. */
  selectedBy?: (row: Row) => PublishedModel['selectedBy'];
  /** None where absent. */
  parameters?: (row: Row) => ParameterRules;
  price: (row: Row) => readonly PriceRule[];
}

/** The rows of a table, each with the parameters and the price of one kind of request. */
export function publishModels<Row extends Pick<PublishedModel, 'id' | 'displayName' | 'servedBy'>>(
  rows: readonly Row[],
  { selectedBy = ({ id }) => ({ model: id }), parameters = () => ({}), price }: Publishing<Row>,
): PublishedModel[] {
  return rows.map((row) => ({
    id: row.id,
    displayName: row.displayName,
    servedBy: row.servedBy,
    selectedBy: selectedBy(row),
    parameters: parameters(row),
    price: price(row),
  }));
}

/** The one model of a kind of sound; `quantity` is what of a request is counted. */
export function publishAudioModel(
  model: AudioModel,
  quantity?: PriceRule['quantity'],
): PublishedModel {
  return {
    id: model.id,
    displayName: model.displayName,
    servedBy: model.displayName,
    selectedBy: {},
    parameters: {},
    price: audioPriceRules(model, quantity),
  };
}
