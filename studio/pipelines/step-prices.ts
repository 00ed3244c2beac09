/**
 * Prices of pipelines. A call whose price depends on the result of an earlier step is priced by what
 * that step is planned to deliver, with a tolerance; where that is not known, by `maxCredits` of
 * its step.
 */
import { creditsFromMicro, microFromCredits } from '../../domain/credits.ts';
import type {
  DraftCall,
  DraftOpenPrice,
  DraftPlan,
  DraftStep,
  MeasuredPrice,
  PlannedMeasurements,
} from '../../domain/draft-plan.ts';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { countCharacters } from '../../domain/field-messages.ts';
import {
  priceMeasured,
  type MeasuredCall,
  type MeasuredInput,
  type MeasuredRule,
  type Violation,
} from '../../domain/measured-price.ts';
import type { PricedUnit } from '../../ledger/price-book.ts';
import { recordingSuffix, type OpenPrice, type StepReference } from '../../domain/pipeline-plan.ts';
import type { FoundReference } from './references.ts';

/** Seconds that a film or recording may last longer than planned; encoders round to frames. */
const secondsTolerance = 0.5;
/** Pixels that an edge may be longer than planned; encoders round to even numbers. */
const pixelsTolerance = 2;
/** Part by which the sections of a composition plan may last longer than requested. */
const compositionTolerance = 0.1;

const toOpen = (price: OpenPrice): DraftOpenPrice => ({ price, expected: null });

/**
 * Returns the price of a call that an earlier step completes; null if the number of units of the
 * call does not depend on one.
 */
export function findOpenPrice(
  call: DraftCall,
  references: readonly FoundReference[],
): DraftOpenPrice | null {
  const input = JSON.stringify(call.routes[0]?.input ?? {});
  const reference = references.find(({ token }) => input.includes(token));
  if (!reference || typeof call.unitPriceUsd !== 'number') return null;
  const { token, kind } = reference;
  if (call.meter === 'character' && kind === 'text') {
    return toOpen({ token, kind: 'characters', others: call.quantity - countCharacters(token) });
  }
  if (call.meter !== 'second') return null;
  if (input.includes(token + recordingSuffix)) return toOpen({ token, kind: 'seconds' });
  return kind === 'compositionPlan' ? toOpen({ token, kind: 'composition' }) : null;
}

/** Returns the measurements that the output of a call is planned to have. */
const getPlanned = (call: DraftCall | undefined): PlannedMeasurements => ({
  ...call?.output.expected,
  ...call?.planned,
});

/**
 * Prices the calls of a measured draft that depend on results of earlier steps.
 * @throws GatewayError INVALID_REQUEST if what an earlier step is planned to deliver exceeds the
 * limits of a step
 */
export function planOpenPrices(draft: DraftPlan, usdPerCredit: number): DraftPlan {
  const calls = [...draft.calls];
  for (const {
    calls: [first, count],
    references,
  } of draft.steps ?? []) {
    for (let index = first; index < first + count; index += 1) {
      const call = calls[index];
      if (call) calls[index] = planCall(call, { references, calls, usdPerCredit });
    }
  }
  return { ...draft, calls };
}

/** Returns the largest of each measurement that all outputs have of which one is chosen. */
function findLargest(planned: readonly PlannedMeasurements[]): PlannedMeasurements {
  const [first = {}, ...others] = planned;
  if (others.length === 0) return first;
  const keys = ['width', 'height', 'durationSeconds', 'pixelsMax'] as const;
  const largest = keys.map((key) => {
    const isGiven = planned.every((one) => typeof one[key] === 'number');
    return [key, isGiven ? Math.max(...planned.map((one) => one[key] ?? 0)) : undefined];
  });
  return { ...first, ...Object.fromEntries(largest) };
}

interface Context {
  references: readonly StepReference[];
  calls: readonly DraftCall[];
  usdPerCredit: number;
}

function planCall(call: DraftCall, context: Context): DraftCall {
  const { references, calls } = context;
  const findPlanned = (token: string | undefined): PlannedMeasurements | null => {
    const reference = references.find((other) => other.token === token);
    if (!reference) return null;
    const { choices = [reference.output] } = reference;
    return findLargest(choices.map(({ callIndex }) => getPlanned(calls[callIndex])));
  };
  const { unitPriceUsd: price, open, sizeOf } = call;
  if (typeof price !== 'number') {
    const { inputs } = price;
    const planned = inputs.map(({ url }, index) => call.known?.[index] ?? findPlanned(url) ?? {});
    return planMeasured(call, price, { planned, ...context });
  }
  if (open) return planUnits(call, open, findPlanned(open.price.token)?.durationSeconds ?? null);
  const planned = findPlanned(sizeOf);
  return planned ? { ...call, planned } : call;
}

/** Plans the number of units of a call with a fixed price of a unit. */
function planUnits(
  call: DraftCall,
  { price }: NonNullable<DraftCall['open']>,
  seconds: number | null,
): DraftCall {
  if (price.kind === 'characters' || seconds === null || typeof call.unitPriceUsd !== 'number') {
    return { ...call, quantity: 1 };
  }
  const tolerance =
    price.kind === 'composition' ? seconds * compositionTolerance : secondsTolerance;
  return {
    ...call,
    quantity: Math.max(1, Math.ceil(seconds + tolerance)),
    planned: { durationSeconds: seconds },
    open: {
      price,
      expected: { quantity: Math.max(1, Math.ceil(seconds)), unitUsd: call.unitPriceUsd },
    },
  };
}

/** Plans a call whose price depends on the measurements of results of earlier steps. */
function planMeasured(
  { known, ...call }: DraftCall,
  price: MeasuredPrice,
  { planned: sizes, usdPerCredit }: Context & { planned: PlannedMeasurements[] },
): DraftCall {
  const { inputs, rule } = price;
  const openInputs = inputs.map(({ url }, index) => known?.[index] ?? url);
  const token = openInputs.find((input) => typeof input === 'string') ?? '';
  const open = { token, kind: 'media' as const, inputs: openInputs, rule, usdPerCredit };
  const planned = sizes.map((size) => limitSize(rule, size));
  if (!isKnown(rule, planned)) {
    return { ...call, quantity: 1, unitPriceUsd: 0, open: { price: open, expected: null } };
  }
  const expected = priceMeasured(
    rule,
    planned.map((input) => toMeasured(input)),
  );
  if ('violates' in expected) throw violationError(price, expected);
  // Beyond the limits, the step is rejected when its inputs are measured.
  const largest = priceMeasured(rule, planned.map(addTolerance));
  const { unitPriceUsd, quantity = call.quantity } = 'violates' in largest ? expected : largest;
  return {
    ...call,
    unitPriceUsd,
    quantity,
    ...plannedOutput(call, expected, sizes[0]),
    variants: expected.variants,
    open: {
      price: open,
      expected: {
        quantity: expected.quantity ?? call.quantity,
        unitUsd: expected.unitPriceUsd,
      },
    },
  };
}

/**
 * Returns a planned size. If only its most pixels are known, it is a square with as many of them as
 * the limits of the rule allow: a larger result is rejected when it is measured.
 */
function limitSize(rule: MeasuredRule, planned: PlannedMeasurements): PlannedMeasurements {
  const { width, pixelsMax } = planned;
  if (rule.kind !== 'size' || width !== undefined || pixelsMax === undefined) return planned;
  const { resultEdgeMax = Infinity, resultPixelsMax = Infinity, scaleFactor } = rule.limits;
  const edge = Math.min(
    Math.sqrt(pixelsMax),
    Math.sqrt(resultPixelsMax) / (scaleFactor ?? rule.scale),
    resultEdgeMax / rule.scale,
  );
  return { ...planned, width: Math.floor(edge), height: Math.floor(edge) };
}

/** Returns what the output of a call is planned to be; its size is known if that of the input is. */
function plannedOutput(
  { output }: DraftCall,
  { expected }: MeasuredCall,
  input: PlannedMeasurements = {},
): Pick<DraftCall, 'output' | 'planned'> {
  const { width = 0, height = 0, ...others } = expected;
  if (input.width !== undefined || input.pixelsMax === undefined)
    return { output: { ...output, expected } };
  return {
    output: { ...output, expected: others },
    planned: { ...others, pixelsMax: width * height },
  };
}

/** Returns whether a rule can be applied to what is planned. */
function isKnown(rule: MeasuredRule, planned: readonly PlannedMeasurements[]): boolean {
  if (rule.kind === 'merge') {
    return planned
      .slice(0, rule.videos)
      .every((video) => typeof video.durationSeconds === 'number');
  }
  const [{ width, height, durationSeconds } = {}] = planned;
  const hasSize = width !== undefined && height !== undefined;
  return hasSize && (!rule.bySecond || typeof durationSeconds === 'number');
}

const toMeasured = ({
  width = 0,
  height = 0,
  durationSeconds = null,
}: PlannedMeasurements): MeasuredInput => ({
  url: '',
  width,
  height,
  durationSeconds,
});

/** Returns measurements of an input that is larger and longer than planned by the tolerances. */
function addTolerance(planned: PlannedMeasurements): MeasuredInput {
  const { width, height, durationSeconds, ...input } = toMeasured(planned);
  return {
    ...input,
    width: width + pixelsTolerance,
    height: height + pixelsTolerance,
    durationSeconds: durationSeconds === null ? null : durationSeconds + secondsTolerance,
  };
}

/** Call with its price in micro-credits. */
export interface PricedCall extends PricedUnit {
  call: DraftCall;
}

/**
 * Price of a step in micro-credits: the reserved maximum, the price of what is planned, and what a
 * provider's report may add to the reserved maximum (`PlannedCall.quantityMax`).
 */
export interface StepPrice {
  maxMicro: number;
  expectedMicro: number;
  allowanceMicro: number;
}

/** Returns what the reports of providers may add to the prices of calls, in micro-credits. */
export const sumAllowances = (calls: readonly PricedCall[]): number =>
  calls.reduce((sum, { call: { quantity, quantityMax = quantity }, unitPriceMicro }) => {
    return sum + Math.max(0, quantityMax - quantity) * unitPriceMicro;
  }, 0);

const sumMicro = (calls: readonly PricedCall[]): number =>
  calls.reduce((sum, { call, unitPriceMicro }) => sum + call.quantity * unitPriceMicro, 0);

/**
 * Prices a step: limits it to its `maxCredits`, and sets the units of calls whose price is not
 * known. `toMicro` prices a unit of a call by its price in USD.
 * @throws GatewayError PRICE_LIMIT_EXCEEDED, or INVALID_REQUEST if `maxCredits` is missing
 */
export function priceStep(
  { step, path }: { step: DraftStep; path: string },
  calls: readonly PricedCall[],
  toMicro: (call: DraftCall, usd: number) => number,
): StepPrice & { calls: PricedCall[] } {
  const isUnknown = ({ call: { open } }: PricedCall): boolean => open?.expected === null;
  const known = calls.filter((priced) => !isUnknown(priced));
  const expectedMicro = known.reduce((sum, { call, unitPriceMicro }) => {
    const expected = call.open?.expected;
    return (
      sum +
      (expected
        ? expected.quantity * toMicro(call, expected.unitUsd)
        : call.quantity * unitPriceMicro)
    );
  }, 0);
  const sentMicro = step.maxCredits === null ? null : microFromCredits(step.maxCredits);
  const allowanceMicro = sumAllowances(known);
  const [unknown] = calls.filter(isUnknown);
  if (sentMicro !== null && expectedMicro + allowanceMicro > sentMicro) {
    throw priceLimitError(`${path}.maxCredits`, expectedMicro + allowanceMicro, sentMicro);
  }
  const limitMicro = sentMicro === null ? null : sentMicro - allowanceMicro;
  const knownMicro = sumMicro(known);
  if (!unknown) {
    const maxMicro = Math.max(expectedMicro, Math.min(knownMicro, limitMicro ?? Infinity));
    return { maxMicro, expectedMicro, allowanceMicro, calls: [...calls] };
  }
  if (limitMicro === null) {
    const token = unknown.call.open?.price.token;
    const reference = step.references.find((other) => other.token === token);
    const message = `is required: the price depends on ${reference?.field ?? 'an input'}, which is known only when the step ${reference?.from ?? ''} has ended`;
    throw fieldError('INVALID_REQUEST', `${path}.maxCredits`, message);
  }
  const shareMicro = Math.floor(
    Math.max(0, limitMicro - knownMicro) / calls.filter(isUnknown).length,
  );
  return {
    maxMicro: limitMicro,
    expectedMicro: limitMicro,
    allowanceMicro,
    calls: calls.map((priced) => (isUnknown(priced) ? setShare(priced, shareMicro) : priced)),
  };
}

/** Sets the units of a call whose price is not known, so that they cost at most its share. */
function setShare({ call, ...price }: PricedCall, shareMicro: number): PricedCall {
  if (price.unitPriceMicro === 0) return { ...price, call, unitPriceMicro: shareMicro };
  const quantity = Math.max(1, Math.floor(shareMicro / price.unitPriceMicro));
  return { ...price, call: { ...call, quantity } };
}

/** Creates the error for a maximum price that is below the price of a request. */
export function priceLimitError(
  path: string,
  priceMicro: number,
  limitMicro: number,
): GatewayError {
  const required = creditsFromMicro(priceMicro);
  const message = `must be at least ${required}, the price in credits (received ${creditsFromMicro(limitMicro)})`;
  return new GatewayError('PRICE_LIMIT_EXCEEDED', `${path}: ${message}`, {
    details: [{ path, message }],
    body: { required },
  });
}

/** Creates the error for a limit that measured inputs violate. */
export function violationError(
  { inputs }: Pick<MeasuredPrice, 'inputs'>,
  { violates, message }: Violation,
): GatewayError {
  const field = inputs[violates ?? 0]?.field ?? '';
  const list = field.replace(/\.\d+$/, '');
  return fieldError('INVALID_REQUEST', violates === null ? list : field, message);
}
