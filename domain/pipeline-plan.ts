/**
 * Steps of a pipeline in a job plan. The calls of a step that takes the result of an earlier step
 * contain tokens in place of that result. `completeCalls` replaces the tokens when the result
 * exists, and calculates the true price with the rules that the plan contains.
 */
import type { ErrorCode } from './errors.ts';
import { priceUnit } from './book-price.ts';
import { creditsFromMicro, microFromCredits } from './credits.ts';
import { asText, isRecord, type Json, type JsonObject } from './json.ts';
import { countCharacters } from './field-messages.ts';
import type { CallOutputs, PlannedCall, StoredArtifact } from './job-plan.ts';
import type { StepOutput } from './job-record.ts';
import {
  findDiscounts,
  priceMeasured,
  type MeasuredInput,
  type MeasuredRule,
} from './measured-price.ts';

/** Reference of a step to the result of an earlier step. */
export interface StepReference {
  /** Text in the calls of the step, in place of the result. Random, so that no input equals it. */
  token: string;
  /** Path of the request field, e.g. `imageUrls.0`. */
  field: string;
  /** Id of the earlier step. */
  from: string;
  /** `file`: an artifact; `text`: a field of the result; `composition`: a composition plan. */
  takes: 'file' | 'text' | 'composition';
  /** Call of the earlier step and its artifact, for a file. */
  output: { callIndex: number; artifactIndex: number };
  /** Outputs of which the decision about the step names one; absent if the request names it. */
  choices?: { callIndex: number; artifactIndex: number }[];
  /** Name of the field of the earlier result, and the allowed number of characters, for a text. */
  text?: { name: string; min: number; max: number };
}

/**
 * Price of a call that depends on results of earlier steps. `media`: on the measurements of
 * pictures, films or recordings, where a text is the token of a result; `seconds`: on the duration of a recording; `characters`: on a text;
 * `composition`: on the duration of a composition plan.
 */
export type OpenPrice = { token: string } & (
  | { kind: 'media'; inputs: (string | MeasuredInput)[]; rule: MeasuredRule; usdPerCredit: number }
  | { kind: 'seconds' }
  | { kind: 'composition' }
  /** `others`: characters of the call that no earlier step determines. */
  | { kind: 'characters'; others: number }
);

/** Outputs of a step of an earlier job, with their call indexes in the job that takes them over. */
export interface TakenOutputs {
  jobId: string;
  outputs: CallOutputs[];
}

/** Step of a pipeline in a job plan. */
export interface PipelineStep {
  id: string;
  /** Path of the capability below /studio, e.g. `image/generate`. */
  use: string;
  /** Job type of the capability. */
  type: string;
  model: string | null;
  /** Index of the first call, and number of calls. */
  calls: [first: number, count: number];
  assembly: 'concat_audio' | null;
  /** Call index of the joined artifact; null if none is joined. */
  assembledIndex: number | null;
  /** Outputs that later steps may take. */
  outputs: StepOutput[];
  /** Outputs of an earlier job that the step takes over; absent if the step runs. */
  taken?: TakenOutputs;
  /** Ids of the earlier steps whose results this step takes. */
  after: string[];
  /** True if the body has a URL whose secret parameters are not stored. */
  hasSecretInputs?: true;
  references: StepReference[];
  /** Maximum price of the step in micro-credits, which is reserved. */
  priceMicro: number;
  /** Micro-credits that a provider's report may add to the price; absent if it may add none. */
  allowanceMicro?: number;
  /** Maximum duration of the step in milliseconds. */
  deadlineMs: number;
  /** Time for the decision whether the step runs; absent if it runs without one. */
  approval?: { withinMs: number };
}

/** Step whose calls cannot be completed. */
export class StepRejected extends Error {
  override readonly name = 'StepRejected';
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** Value that replaces a token. */
export type ReferenceValue =
  | { kind: 'file'; artifact: StoredArtifact }
  | { kind: 'text'; text: string }
  | { kind: 'composition'; plan: JsonObject };
/** Values of the references of a step, by token. */
export type ReferenceValues = ReadonlyMap<string, ReferenceValue>;

/** Suffix of a token that stands for the storage key of a recording. */
export const recordingSuffix = '/recording';

/**
 * Replaces the tokens in the calls of a step, and calculates their true prices.
 * @throws StepRejected PRICE_LIMIT_EXCEEDED if they exceed the price of the step, INVALID_REQUEST if
 * a result exceeds the limits of the step
 */
export function completeCalls(
  step: PipelineStep,
  calls: readonly PlannedCall[],
  values: ReferenceValues,
): PlannedCall[] {
  for (const reference of step.references) checkLength(reference, values);
  const completed = calls.map((call) => {
    const priced = priceCall(step, call, values);
    const routes = priced.routes.map((route) => ({
      ...route,
      input: replaceInObject(route.input, values),
    }));
    return { ...priced, routes };
  });
  const priceMicro = completed.reduce((sum, call) => sum + call.quantity * call.unitPriceMicro, 0);
  if (priceMicro <= step.priceMicro) return completed;
  throw new StepRejected(
    'PRICE_LIMIT_EXCEEDED',
    `the step costs ${creditsFromMicro(priceMicro)} credits with the measured input; its maximum is ${creditsFromMicro(step.priceMicro)}`,
  );
}

function checkLength({ token, field, text }: StepReference, values: ReferenceValues): void {
  const value = values.get(token);
  if (!text || value?.kind !== 'text') return;
  const length = countCharacters(value.text);
  if (length >= text.min && length <= text.max && value.text.trim() !== '') return;
  throw new StepRejected(
    'INVALID_REQUEST',
    `${field} must have ${text.min}–${text.max} characters (the result of the earlier step has ${length})`,
  );
}

function priceCall(step: PipelineStep, call: PlannedCall, values: ReferenceValues): PlannedCall {
  const { open } = call;
  const value = open && values.get(open.token);
  if (!open || !value) return call;
  if (open.kind === 'characters') {
    const quantity = open.others + (value.kind === 'text' ? countCharacters(value.text) : 0);
    return { ...call, quantity };
  }
  if (open.kind === 'composition') {
    return { ...call, quantity: value.kind === 'composition' ? countSeconds(value.plan) : 1 };
  }
  if (open.kind === 'media') return priceMediaCall(step, { ...call, open }, values);
  const seconds = value.kind === 'file' ? (value.artifact.durationSeconds ?? 0) : 0;
  return { ...call, quantity: Math.max(1, Math.ceil(seconds)) };
}

type MediaCall = PlannedCall & { open: Extract<OpenPrice, { kind: 'media' }> };

function priceMediaCall(
  step: PipelineStep,
  { open, ...call }: MediaCall,
  values: ReferenceValues,
): PlannedCall {
  const inputs = open.inputs.map((input) =>
    typeof input === 'string' ? measureValue(values.get(input)) : input,
  );
  const priced = priceMeasured(open.rule, inputs);
  if ('violates' in priced) {
    const token = open.inputs[priced.violates ?? 0];
    const field = step.references.find((reference) => reference.token === token)?.field;
    throw new StepRejected('INVALID_REQUEST', `${field ?? 'inputs'}: ${priced.message}`);
  }
  const toMicro = (usd: number): number => microFromCredits(usd / open.usdPerCredit);
  const unitCostMicro = toMicro(priced.unitPriceUsd);
  const price = {
    unitCostMicro,
    unitPriceMicro: priceUnit(unitCostMicro, call.book ?? null),
    ...(call.book && { book: call.book }),
  };
  const { quantity = call.quantity, expected, input } = priced;
  const variants = priced.variants.flatMap(({ pixelsBelow, unitPriceUsd }) => {
    const discounts = findDiscounts(price, toMicro(unitPriceUsd));
    return discounts ? [{ pixelsBelow, ...discounts }] : [];
  });
  const output = { ...call.output, expected, ...(variants.length > 0 && { variants }) };
  const routes = input ? call.routes.map((route) => ({ ...route, input })) : call.routes;
  return { ...call, quantity, ...price, output, routes };
}

/** Returns the measurements of a stored result, with the reference to it. */
function measureValue(value: ReferenceValue | undefined): MeasuredInput {
  if (value?.kind !== 'file') throw new StepRejected('SKIPPED', 'an input does not exist');
  const { storageKey, width, height, durationSeconds, hasAudio, contentType } = value.artifact;
  return {
    url: `storage:${storageKey}`,
    width: width ?? 0,
    height: height ?? 0,
    durationSeconds,
    hasAudio: hasAudio ?? contentType.startsWith('audio/'),
  };
}

/** Returns the seconds of a composition plan, rounded up. */
function countSeconds(plan: JsonObject): number {
  const sections = Array.isArray(plan['sections']) ? plan['sections'] : [];
  const durationMs = sections.reduce<number>(
    (sum, section) => sum + (isRecord(section) ? Number(section['duration_ms']) : 0),
    0,
  );
  return Math.max(1, Math.ceil(durationMs / 1000));
}

function replaceInObject(input: JsonObject, values: ReferenceValues): JsonObject {
  return Object.fromEntries(
    Object.entries(input).map(([name, value]): [string, Json] => [name, replace(value, values)]),
  );
}

function replace(value: Json, values: ReferenceValues): Json {
  if (Array.isArray(value)) return value.map((item) => replace(item, values));
  if (typeof value === 'object' && value !== null) return replaceInObject(value, values);
  if (typeof value !== 'string') return value;
  let text = value;
  for (const [token, found] of values) {
    if (!text.includes(token)) continue;
    if (found.kind === 'composition' && text === token) return found.plan;
    const replacement = describeValue(found);
    // A function, because a replacement text may contain `$&`.
    text = text
      .replaceAll(token + recordingSuffix, () => replacement)
      .replaceAll(token, () => replacement);
  }
  return text;
}

/** Returns the text of a value inside other text: a storage key, the text, or the styles of a plan. */
function describeValue(value: ReferenceValue): string {
  if (value.kind === 'file') return value.artifact.storageKey;
  if (value.kind === 'text') return value.text;
  const styles = value.plan['positive_global_styles'];
  return Array.isArray(styles) ? styles.map(asText).join(', ') : '';
}
