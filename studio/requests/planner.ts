/**
 * Turns drafts into job plans: ids, prices, deadlines and task queues are decided once, before the
 * job starts.
 */
import type { ProviderDefinition } from '../../providers/provider.ts';
import { providerDefinitions } from '../../providers/provider-registry.ts';
import { assert, fieldError, GatewayError } from '../../domain/errors.ts';
import { microFromCredits } from '../../domain/credits.ts';
import type { PriceUnit } from '../../domain/book-price.ts';
import { asRecord, asText, type Json, type JsonObject } from '../../domain/json.ts';
import { providerTaskQueue } from '../../domain/job-contract.ts';
import {
  approvalPlanVersion,
  bookPlanVersion,
  planVersion,
  type JobPlan,
  type OutputSpec,
  type PlannedCall,
} from '../../domain/job-plan.ts';
import type { Config } from '../../platform/config.ts';
import { findDiscounts } from '../../domain/measured-price.ts';
import { hideSecretParameters } from '../../storage/inputs/inputs.ts';
import {
  priceUsd,
  type PricedUnit,
  type PricedWork,
  type Prices,
} from '../../ledger/price-book.ts';
import { useOf, type Capability, type Medium } from '../capabilities/capability.ts';
import type { DraftCall, DraftPlan, DraftStep } from '../../domain/draft-plan.ts';
import type { PipelineStep } from '../../domain/pipeline-plan.ts';
import {
  priceLimitError,
  priceStep,
  sumAllowances,
  type PricedCall,
  type StepPrice,
} from '../pipelines/step-prices.ts';
import type { Caller } from '../../identity/access.ts';

/** Data from which the plan of a job is built. */
export interface PlanRequest {
  jobId: string;
  requestId: string;
  caller: Pick<Caller, 'organizationId' | 'keyId' | 'token'>;
  capability: Capability;
  request: JsonObject;
  draft: DraftPlan;
  prices: Prices;
  metadata: Record<string, string> | null;
  /** Recipe of the request, as `name@version`. */
  recipe?: string | null | undefined;
}

/** Returns the unit in which the price book prices a call. */
const priceUnitOf = ({
  meter = 'artifact',
  output,
}: Pick<DraftCall, 'meter' | 'output'>): Exclude<PriceUnit, 'token'> =>
  meter !== 'artifact' ? meter : output.medium === 'image' ? 'image' : 'request';

/** Prices a unit of a call that costs `usd` in the catalog. */
const priceUnitOfCall = (
  prices: Prices,
  { call, ...work }: PricedWork & { call: DraftCall },
  usd: number,
) => priceUsd(prices, usd, { ...work, unit: priceUnitOf(call) });

/** Price of a draft in micro-credits: in total, by call, and by step of a pipeline. */
export interface DraftPrice {
  /** Credits to reserve. */
  priceMicro: number;
  calls: PricedCall[];
  steps: StepPrice[];
}

/**
 * Prices a draft whose inputs have been measured.
 * @throws GatewayError PRICE_LIMIT_EXCEEDED if the price exceeds `maxCredits` of the request or of a
 * step; INVALID_REQUEST if a step needs `maxCredits`
 */
export function priceDraft(
  prices: Prices,
  capability: Pick<Capability, 'path'>,
  draft: DraftPlan,
): DraftPrice {
  const work = { use: useOf(capability), model: draft.model };
  const price = draft.steps
    ? priceSteps(prices, draft.steps, draft.calls)
    : { ...priceCalls(prices, work, draft.calls), steps: [] };
  const limitMicro = draft.maxCredits === undefined ? null : microFromCredits(draft.maxCredits);
  const maxMicro = calculateChargeMaxMicro(price);
  if (limitMicro !== null && maxMicro > limitMicro)
    throw priceLimitError('maxCredits', maxMicro, limitMicro);
  return price;
}

function priceSteps(
  prices: Prices,
  steps: readonly DraftStep[],
  drafts: readonly DraftCall[],
): DraftPrice {
  const priced = steps.map((step, index) => {
    const [first, count] = step.calls;
    const { calls } = priceCalls(prices, step, drafts.slice(first, first + count));
    const { use, model } = step;
    return priceStep(
      { step, path: `steps.${index}` },
      calls,
      (call, usd) => priceUnitOfCall(prices, { use, model, call }, usd).unitPriceMicro,
    );
  });
  return {
    priceMicro: priced.reduce((sum, { maxMicro }) => sum + maxMicro, 0),
    calls: priced.flatMap((step) => step.calls),
    steps: priced,
  };
}

/**
 * Prices calls whose inputs have been measured: returns the unit price of each call and the total
 * to reserve, in micro-credits.
 */
export function priceCalls(
  prices: Prices,
  { use, model }: PricedWork,
  drafts: readonly DraftCall[],
): { priceMicro: number; calls: PricedCall[] } {
  const calls = drafts.map((call) => {
    assert(typeof call.unitPriceUsd === 'number', 'the unit price of a call has not been measured');
    return { call, ...priceUnitOfCall(prices, { use, model, call }, call.unitPriceUsd) };
  });
  const priceMicro = calls.reduce(
    (sum, { call, unitPriceMicro }) => sum + call.quantity * unitPriceMicro,
    0,
  );
  return { priceMicro, calls };
}

/**
 * Returns the maximum charge of a draft. It exceeds the price if a provider may report more than was
 * measured (`PlannedCall.quantityMax`).
 */
export const calculateChargeMaxMicro = ({ priceMicro, calls }: DraftPrice): number =>
  priceMicro + sumAllowances(calls);

/**
 * Turns a draft into the plan of a job.
 * @throws GatewayError SERVICE_UNAVAILABLE if no provider of a call has an API key configured
 */
export function completePlan(config: Config, input: PlanRequest): JobPlan {
  const pricedCalls = priceDraft(input.prices, input.capability, input.draft);
  const steps = input.draft.steps && planSteps(config, input, pricedCalls);
  const { medium } = input.capability;
  const deadlineMs =
    medium === 'mixed' ? sumLongestPath(steps ?? []) : findDeadlineMs(config, medium);
  const calls = pricedCalls.calls.map(({ call, ...price }, index): PlannedCall => ({
    index,
    meter: call.meter ?? 'artifact',
    quantity: call.quantity,
    ...(call.quantityMax !== undefined && { quantityMax: call.quantityMax }),
    unitPriceMicro: price.unitPriceMicro,
    unitCostMicro: price.unitCostMicro,
    ...(price.book && { book: price.book }),
    output: {
      ...buildOutput(input.prices, call, price),
      // Each step of a pipeline has inputs of its own.
      ...(!steps && (input.draft.inputs ?? []).length > 0 && { hasCallerMedia: true as const }),
    },
    required: call.required,
    firstCheckMs: Math.min(calculateFirstCheckMs(call, deadlineMs), config.FIRST_CHECK_MAX_MS),
    inputFrom: call.inputFrom ?? null,
    ...(call.maskArea && { maskArea: call.maskArea }),
    routes: findRoutes(config, call),
    ...(call.open && { open: call.open.price }),
  }));
  const plan: JobPlan = {
    planVersion: findPlanVersion(calls, steps ?? []),
    jobId: input.jobId,
    organizationId: input.caller.organizationId,
    keyId: input.caller.keyId,
    ...(input.caller.token && { tokenId: input.caller.token.tokenId }),
    requestId: input.requestId,
    type: input.capability.type,
    model: input.draft.model,
    priceMicro: pricedCalls.priceMicro,
    pricedAtMs: input.prices.atMs,
    ...(input.metadata && { metadata: input.metadata }),
    ...(input.recipe && { recipe: input.recipe }),
    request: describeRequest(input),
    calls,
    ...(steps && { steps }),
    ...(input.draft.parentJobId !== undefined && { parentJobId: input.draft.parentJobId }),
    assembly: input.draft.assembly ?? null,
    deadlineAt: new Date(Date.now() + deadlineMs).toISOString(),
    deadlineMs,
    typicalSeconds: calculateTypicalSeconds(input.draft),
    webhook: null,
    outcomeWaitMs: config.OUTCOME_WAIT_MS,
    reservationTtlMs: config.RESERVATION_TTL_MS,
  };
  if (steps) throwIfTooLarge(plan);
  return plan;
}

/** Returns the version of a plan, which older workers run only if they know all of it. */
function findPlanVersion(calls: readonly PlannedCall[], steps: readonly PipelineStep[]): number {
  if (calls.some(({ book, open }) => book && open?.kind === 'media')) return bookPlanVersion;
  return steps.some(({ approval }) => approval) ? approvalPlanVersion : planVersion;
}

/** Maximum size of the plan of a pipeline in bytes of JSON. Temporal accepts 2 MB. */
const planBytesMax = 400_000;

/** @throws GatewayError INVALID_REQUEST if the plan is too large for a workflow */
function throwIfTooLarge(plan: JobPlan): void {
  const bytes = Buffer.byteLength(JSON.stringify(plan));
  if (bytes <= planBytesMax) return;
  const message = `the requests to providers have ${bytes} bytes in all; at most ${planBytesMax} are allowed: use fewer steps or shorter texts`;
  throw fieldError('INVALID_REQUEST', 'steps', message);
}

/** Completes the steps of a pipeline. */
function planSteps(
  config: Config,
  { request, draft: { steps: drafts = [] } }: PlanRequest,
  { calls, steps: prices }: DraftPrice,
): PipelineStep[] {
  const secretSteps = listSecretSteps(request);
  return drafts.map((draft, index): PipelineStep => {
    const { maxMicro = 0, allowanceMicro = 0 } = prices[index] ?? {};
    return {
      id: draft.id,
      use: draft.use,
      type: draft.type,
      model: draft.model,
      calls: draft.calls,
      assembly: draft.assembly,
      // Joined artifacts are stored under the indexes that follow those of the calls.
      assembledIndex: draft.assembly ? calls.length + index : null,
      outputs: draft.outputs,
      ...(draft.taken && { taken: draft.taken }),
      after: draft.after,
      ...(secretSteps.has(draft.id) && { hasSecretInputs: true as const }),
      references: draft.references,
      priceMicro: maxMicro,
      ...(allowanceMicro > 0 && { allowanceMicro }),
      ...(draft.approval && { approval: draft.approval }),
      deadlineMs: draft.taken ? 0 : findDeadlineMs(config, draft.medium),
    };
  });
}

/** Returns the longest time that successive steps of a pipeline may take, in milliseconds. */
function sumLongestPath(steps: readonly PipelineStep[]): number {
  const endsMs = new Map<string, number>();
  for (const { id, after, deadlineMs } of steps) {
    endsMs.set(id, Math.max(0, ...after.map((other) => endsMs.get(other) ?? 0)) + deadlineMs);
  }
  return Math.max(...endsMs.values());
}

/**
 * Returns the routes whose provider has an API key configured.
 * @throws GatewayError SERVICE_UNAVAILABLE if there is none
 */
function findRoutes(config: Config, call: DraftCall): PlannedCall['routes'] {
  const routes = call.routes
    .filter(({ provider }) => findDefinition(provider).isConfigured(config))
    .map((route) => ({
      ...route,
      ...findDefinition(route.provider).traits,
      taskQueue: providerTaskQueue(config.TASK_QUEUE_PREFIX, route.provider),
    }));
  if (routes.length > 0) return routes;
  const names = call.routes.map(({ provider }) => provider).join(' or ');
  throw new GatewayError('SERVICE_UNAVAILABLE', `This gateway has no API key for ${names}.`);
}

/**
 * Returns the request as it is stored and shown: with the errors of rejected items, which have no
 * call, and without signatures in URLs, because anyone who has them can read the files.
 */
function describeRequest({ request, draft: { rejectedItems } }: PlanRequest): JsonObject {
  const shown = Object.fromEntries(
    Object.entries(request).map(([name, value]) => [name, hideSignatures(value)]),
  );
  return rejectedItems ? { ...shown, rejectedItems } : shown;
}

/** Replaces secret parameters of each string that is a URL, also in lists and objects. */
function hideSignatures(value: Json): Json {
  if (Array.isArray(value)) return value.map(hideSignatures);
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value).map(([name, item]): [string, Json] => [
      name,
      hideSignatures(item),
    ]);
    return Object.fromEntries<Json>(entries);
  }
  // A URL without secrets stays exactly as it was sent.
  return typeof value === 'string' ? (hideSecretParameters(value) ?? value) : value;
}

/** Returns the ids of the steps whose bodies have a URL with secret parameters. */
function listSecretSteps({ steps }: JsonObject): ReadonlySet<string> {
  const sent = Array.isArray(steps) ? steps : [];
  return new Set(sent.filter(hasSecretUrl).map((step) => asText(asRecord(step)['id'])));
}

/** Returns whether a value contains a URL with secret parameters, also one that hides their values. */
export const hasSecretUrl = (value: Json | undefined): boolean =>
  typeof value === 'object' && value !== null
    ? Object.values(value).some(hasSecretUrl)
    : typeof value === 'string' && hideSecretParameters(value) !== null;

function findDefinition(provider: string): ProviderDefinition {
  const definition = providerDefinitions.get(provider);
  assert(definition, `the provider ${provider} of the catalog is not defined`);
  return definition;
}

/** Minimum time from the submission to the first status check, in milliseconds, for short calls. */
const firstCheckMinMs = 20_000;

/**
 * Returns the time from the submission of a call to its first status check, in milliseconds. The
 * provider's notification usually arrives much earlier, so that most calls need no status check.
 */
function calculateFirstCheckMs({ typicalSeconds }: DraftCall, deadlineMs: number): number {
  if (typicalSeconds === undefined) return deadlineMs / 4;
  return Math.max(firstCheckMinMs, 3 * typicalSeconds * 1000);
}

/**
 * Returns the typical duration of a job in seconds, which depends on its parallel and successive
 * calls. Returns null if the typical duration of a call is unknown.
 */
function calculateTypicalSeconds({ calls, steps = [] }: DraftPlan): number | null {
  const endSeconds: number[] = [];
  for (const [index, { typicalSeconds, inputFrom }] of calls.entries()) {
    if (typicalSeconds === undefined) return null;
    const step = steps.find(({ calls: [first, count] }) => index >= first && index < first + count);
    const earlier = steps
      .filter(({ id }) => step?.after.includes(id))
      .flatMap(({ calls: [first, count] }) => endSeconds.slice(first, first + count));
    const startSeconds = inputFrom ? (endSeconds[inputFrom.callIndex] ?? 0) : 0;
    endSeconds.push(typicalSeconds + Math.max(0, startSeconds, ...earlier));
  }
  return Math.max(...endSeconds);
}

/**
 * Returns the expected output of a call. `variants` are cheaper kinds of output that the provider
 * may deliver instead, with their discounts.
 */
function buildOutput(
  { usdPerCredit }: Pick<Prices, 'usdPerCredit'>,
  call: DraftCall,
  price: PricedUnit,
): OutputSpec {
  const variants = (call.variants ?? []).flatMap(({ unitPriceUsd, ...variant }) => {
    const discounts = findDiscounts(price, microFromCredits(unitPriceUsd / usdPerCredit));
    return discounts ? [{ ...variant, ...discounts }] : [];
  });
  return variants.length > 0 ? { ...call.output, variants } : call.output;
}

/** Returns the maximum duration of a job of this medium, in milliseconds. */
function findDeadlineMs(config: Config, medium: Medium): number {
  const deadlines = {
    image: config.IMAGE_DEADLINE_MS,
    video: config.VIDEO_DEADLINE_MS,
    audio: config.AUDIO_DEADLINE_MS,
  };
  return deadlines[medium];
}
