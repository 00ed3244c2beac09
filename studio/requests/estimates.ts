/**
 * Estimates Studio requests: runs the same steps as job-submission.ts up to the price, and starts
 * no job.
 */
import { creditsFromMicro } from '../../domain/credits.ts';
import { newId } from '../../domain/ids.ts';
import type { DraftCall, DraftStep } from '../../domain/draft-plan.ts';
import type { Config } from '../../platform/config.ts';
import type { createInputCopies } from '../../storage/inputs/input-copies.ts';
import type { Inputs } from '../../storage/inputs/inputs.ts';
import type { Recordings } from '../../storage/inputs/recordings.ts';
import type { PriceBook, Prices } from '../../ledger/price-book.ts';
import type { Storage } from '../../storage/storage.ts';
import type { StepPrice } from '../pipelines/step-prices.ts';
import { calculateChargeMaxMicro, priceDraft, type DraftPrice } from './planner.ts';
import type { Estimate, EstimateItem } from './prices.ts';
import {
  authorizeRequest,
  draftRequest,
  measurePrices,
  type StudioRequest,
} from './request-draft.ts';

/** Services that price a request. */
export interface PricingServices {
  config: Config;
  inputs: Inputs;
  recordings: Recordings;
  copies: ReturnType<typeof createInputCopies>;
  storage: Storage;
  priceBook: PriceBook;
}

/** Price of a request, with its model and the steps of a pipeline. */
interface PricedRequest {
  model: string | null;
  steps: readonly DraftStep[] | undefined;
  price: DraftPrice;
}

/**
 * Prices a request. Starts no job, reserves nothing, and deletes the copies that were stored to
 * measure inputs.
 * @throws GatewayError any error that the request itself can throw before it reserves credits
 */
export async function priceRequest(
  request: StudioRequest,
  services: PricingServices,
  prices: Prices,
): Promise<PricedRequest> {
  const { config, storage } = services;
  const plan = authorizeRequest(request);
  // Copies are stored under a job id, so an estimate uses a new id that belongs to no job.
  const copies = services.copies.forRequest({
    organizationId: request.caller.organizationId,
    jobId: newId('job'),
    countBytes: request.countCopied,
    readsHeadsOnly: true,
  });
  try {
    const { draft } = await draftRequest(request, plan, { ...services, copies });
    const measured = await measurePrices({ config, storage, copies }, draft);
    const { model, steps } = measured;
    return { model, steps, price: priceDraft(prices, request.capability, measured) };
  } finally {
    await copies.discard();
  }
}

/** Returns the maximum price of the steps that can run without a decision, in micro-credits. */
export function sumBeforeApproval(
  steps: readonly DraftStep[],
  prices: readonly StepPrice[],
): number {
  const waiting = new Set<string>();
  const micro = steps.map(({ id, approval, after }, index) => {
    if (approval || after.some((other) => waiting.has(other))) waiting.add(id);
    const { maxMicro = 0, allowanceMicro = 0 } = prices[index] ?? {};
    return waiting.has(id) ? 0 : maxMicro + allowanceMicro;
  });
  return micro.reduce((sum, one) => sum + one, 0);
}

/** Returns the prices of the steps of a pipeline, and of what is planned in all. */
function estimateSteps(
  steps: readonly DraftStep[],
  prices: readonly StepPrice[],
): Pick<Estimate, 'expectedCredits' | 'creditsBeforeApproval' | 'steps'> {
  const expectedMicro = prices.reduce((sum, price) => sum + price.expectedMicro, 0);
  return {
    expectedCredits: creditsFromMicro(expectedMicro),
    ...(steps.some(({ approval }) => approval) && {
      creditsBeforeApproval: creditsFromMicro(sumBeforeApproval(steps, prices)),
    }),
    steps: steps.map(({ id, use, model }, index) => ({
      id,
      use,
      model,
      credits: creditsFromMicro(prices[index]?.maxMicro ?? 0),
      maxCredits: creditsFromMicro(
        (prices[index]?.maxMicro ?? 0) + (prices[index]?.allowanceMicro ?? 0),
      ),
      expectedCredits: creditsFromMicro(prices[index]?.expectedMicro ?? 0),
    })),
  };
}

/**
 * Estimates the credits that a Studio request would reserve.
 * @throws GatewayError the errors of `priceRequest`
 */
export async function estimateRequest(
  request: StudioRequest,
  services: PricingServices,
): Promise<Estimate> {
  const prices = await services.priceBook.at(request.caller.organizationId);
  const { model, steps, price } = await priceRequest(request, services, prices);
  return {
    type: request.capability.type,
    model,
    credits: creditsFromMicro(price.priceMicro),
    maxCredits: creditsFromMicro(calculateChargeMaxMicro(price)),
    items: price.calls.map(({ call, unitPriceMicro }) => toEstimateItem(call, unitPriceMicro)),
    ...(steps && estimateSteps(steps, price.steps)),
  };
}

const mediumUnits = {
  image: 'image',
  video: 'video',
  audio: 'recording',
  json: 'request',
} as const;

function toEstimateItem(call: DraftCall, unitPriceMicro: number): EstimateItem {
  const { meter = 'artifact', quantity, output, priceNote: note } = call;
  return {
    unit: meter === 'artifact' ? mediumUnits[output.medium] : meter,
    quantity,
    creditsPerUnit: creditsFromMicro(unitPriceMicro),
    credits: creditsFromMicro(unitPriceMicro * quantity),
    ...(note !== undefined && { note }),
  };
}
