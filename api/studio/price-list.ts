/** The prices of all Studio models in credits, with an example of each; made once from the tables that plans are priced by. */
import type { PriceRule } from '../../catalog/price-rules.ts';
import { creditsFromMicro, microFromCredits } from '../../domain/credits.ts';
import type { Config } from '../../platform/config.ts';
import type { Capability, DraftCall, InputFacts } from '../../studio/capability.ts';
import type { PublishedModel } from '../../studio/published-models.ts';
import { capabilities } from '../../studio/registry.ts';
import { priceCalls } from './planner.ts';
import type { PriceExample, PriceRuleView } from './price-view.ts';

/** A model with its price in credits. */
export type PricedModel = Omit<PublishedModel, 'price'> & {
  price: PriceRuleView[];
  example: PriceExample;
};

/** What a Studio endpoint costs. */
export interface PricedCapability {
  capability: Capability;
  models: PricedModel[];
}

type Currency = Pick<Config, 'USD_PER_CREDIT'>;

/** What an input is taken to be that nobody has named. */
const exampleInput: InputFacts & { durationSeconds: number } = {
  width: 1024,
  height: 1024,
  durationSeconds: 10,
};

/** See the file's head. */
export function createPriceList(config: Currency): readonly PricedCapability[] {
  return capabilities.map((capability) => ({
    capability,
    models: (capability.models ?? []).map(({ price, ...model }) => ({
      ...model,
      price: price.map((rule) => inCredits(rule, config)),
      example: exampleOf(capability, model.selectedBy, config),
    })),
  }));
}

function inCredits({ rows, ...rule }: PriceRule, { USD_PER_CREDIT }: Currency): PriceRuleView {
  return {
    ...rule,
    rows: rows.map(({ usd, ...row }) => ({
      ...row,
      credits: creditsFromMicro(microFromCredits(usd / USD_PER_CREDIT)),
    })),
  };
}

function exampleOf(
  capability: Capability,
  selectedBy: PublishedModel['selectedBy'],
  config: Currency,
): PriceExample {
  const request = { ...capability.example, ...selectedBy };
  const { calls } = capability.plan(capability.request.parse(request));
  const measured = calls.map(measuredCall);
  const isMeasured = calls.some(({ unitPriceUsd }) => typeof unitPriceUsd !== 'number');
  return {
    request,
    input: isMeasured ? exampleInput : null,
    credits: creditsFromMicro(priceCalls(config, measured).priceMicro),
    notes: calls.flatMap(({ priceNote }) => priceNote ?? []),
  };
}

function measuredCall(call: DraftCall): DraftCall {
  const { unitPriceUsd: price } = call;
  if (typeof price === 'number') return call;
  const { quantity = call.quantity } = price.outputOf(exampleInput);
  return { ...call, quantity, unitPriceUsd: price.usdOf(exampleInput) };
}
