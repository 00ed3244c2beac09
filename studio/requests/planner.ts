/**
 * Turns drafts into job plans: ids, prices, deadlines and task queues are decided once, before the
 * job starts.
 */
import type { ProviderDefinition } from '../../providers/provider.ts';
import { providerDefinitions } from '../../providers/provider-registry.ts';
import { assert, GatewayError } from '../../domain/errors.ts';
import { microFromCredits } from '../../domain/credits.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { providerTaskQueue, webhookTaskQueue } from '../../domain/job-contract.ts';
import {
  planVersion,
  type JobPlan,
  type OutputSpec,
  type PlannedCall,
} from '../../domain/job-plan.ts';
import type { Config } from '../../platform/config.ts';
import { listSecretParameters } from '../../storage/inputs/inputs.ts';
import type { Capability } from '../capabilities/capability.ts';
import type { DraftCall, DraftPlan } from '../../domain/draft-plan.ts';
import type { Caller } from '../../identity/access.ts';
import type { RequestedWebhook } from './request-draft.ts';

/** Data from which the plan of a job is built. */
export interface PlanInput {
  jobId: string;
  requestId: string;
  caller: Pick<Caller, 'organizationId' | 'keyId'>;
  capability: Capability;
  request: JsonObject;
  draft: DraftPlan;
  metadata: Record<string, string> | null;
  webhook: RequestedWebhook | null;
}

/** Price of one credit in USD. */
export type CreditPrice = Pick<Config, 'USD_PER_CREDIT'>;

/** Converts a price in USD to micro-credits, rounded up. */
export function microFromUsd({ USD_PER_CREDIT }: CreditPrice, usd: number): number {
  return microFromCredits(usd / USD_PER_CREDIT);
}

/**
 * Prices calls whose inputs have been measured: returns the unit price of each call and the total
 * to reserve, in micro-credits.
 */
export function priceCalls(
  creditPrice: CreditPrice,
  drafts: readonly DraftCall[],
): { priceMicro: number; calls: { call: DraftCall; unitPriceMicro: number }[] } {
  const calls = drafts.map((call) => {
    assert(typeof call.unitPriceUsd === 'number', 'the unit price of a call has not been measured');
    return { call, unitPriceMicro: microFromUsd(creditPrice, call.unitPriceUsd) };
  });
  const priceMicro = calls.reduce(
    (sum, { call, unitPriceMicro }) => sum + call.quantity * unitPriceMicro,
    0,
  );
  return { priceMicro, calls };
}

/**
 * Turns a draft into the plan of a job.
 * @throws GatewayError SERVICE_UNAVAILABLE if no provider of a call has an API key configured
 */
export function completePlan(config: Config, input: PlanInput): JobPlan {
  const deadlineMs = findDeadlineMs(config, input.capability.medium);
  const pricedCalls = priceCalls(config, input.draft.calls);
  const calls = pricedCalls.calls.map(({ call, unitPriceMicro }, index): PlannedCall => ({
    index,
    meter: call.meter ?? 'artifact',
    quantity: call.quantity,
    ...(call.quantityMax !== undefined && { quantityMax: call.quantityMax }),
    unitPriceMicro,
    output: {
      ...buildOutput(config, call, unitPriceMicro),
      ...((input.draft.inputs ?? []).length > 0 && { hasCallerMedia: true as const }),
    },
    required: call.required,
    firstCheckMs: Math.min(calculateFirstCheckMs(call, deadlineMs), config.FIRST_CHECK_MAX_MS),
    inputFrom: call.inputFrom ?? null,
    routes: findRoutes(config, call),
  }));
  return {
    planVersion,
    jobId: input.jobId,
    organizationId: input.caller.organizationId,
    keyId: input.caller.keyId,
    requestId: input.requestId,
    type: input.capability.type,
    model: input.draft.model,
    priceMicro: pricedCalls.priceMicro,
    ...(input.metadata && { metadata: input.metadata }),
    request: describeRequest(input),
    calls,
    assembly: input.draft.assembly ?? null,
    deadlineAt: new Date(Date.now() + deadlineMs).toISOString(),
    deadlineMs,
    typicalSeconds: calculateTypicalSeconds(input.draft.calls),
    webhook: input.webhook && {
      taskQueue: webhookTaskQueue(config.TASK_QUEUE_PREFIX),
      ...(input.webhook.events?.includes('started') && { started: true as const }),
    },
    outcomeWaitMs: config.OUTCOME_WAIT_MS,
    reservationTtlMs: config.RESERVATION_TTL_MS,
  };
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
function describeRequest({ request, draft: { rejectedItems } }: PlanInput): JsonObject {
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
  if (typeof value !== 'string' || !/^https?:\/\/\S+\?\S+$/i.test(value)) return value;
  if (!URL.canParse(value)) return value;
  const url = new URL(value);
  const secretNames = listSecretParameters(url);
  // A URL without secrets stays exactly as it was sent.
  if (secretNames.length === 0) return value;
  for (const name of secretNames) url.searchParams.set(name, 'REDACTED');
  return url.href;
}

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
function calculateTypicalSeconds(calls: readonly DraftCall[]): number | null {
  const endSeconds: number[] = [];
  for (const { typicalSeconds, inputFrom } of calls) {
    if (typicalSeconds === undefined) return null;
    endSeconds.push(typicalSeconds + (inputFrom ? (endSeconds[inputFrom.callIndex] ?? 0) : 0));
  }
  return Math.max(...endSeconds);
}

/**
 * Returns the expected output of a call. `variants` are cheaper kinds of output that the provider
 * may deliver instead, with their discounts.
 */
function buildOutput(
  creditPrice: CreditPrice,
  call: DraftCall,
  unitPriceMicro: number,
): OutputSpec {
  const variants = (call.variants ?? [])
    .map(({ unitPriceUsd, ...variant }) => ({
      ...variant,
      unitDiscountMicro: unitPriceMicro - microFromUsd(creditPrice, unitPriceUsd),
    }))
    .filter(({ unitDiscountMicro }) => unitDiscountMicro > 0);
  return variants.length > 0 ? { ...call.output, variants } : call.output;
}

/** Returns the maximum duration of a job of this medium, in milliseconds. */
function findDeadlineMs(config: Config, medium: Capability['medium']): number {
  const deadlines = {
    image: config.IMAGE_DEADLINE_MS,
    video: config.VIDEO_DEADLINE_MS,
    audio: config.AUDIO_DEADLINE_MS,
  };
  return deadlines[medium];
}
