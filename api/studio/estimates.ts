/**
 * What a Studio request would reserve: on the way of the request itself, up to its price. Nothing is started or
 * reserved, and what was copied or kept to be measured is thrown away.
 */
import type { Services } from '../../activities/services.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { newId } from '../../domain/ids.ts';
import type { Config } from '../../platform/config.ts';
import type { Capability, DraftCall } from '../../studio/capability.ts';
import type { Estimate, EstimateItem } from './price-view.ts';
import type { Context } from '../context.ts';
import { discardFiles, keeperOf, type KeptFile } from './job-submission.ts';
import { measurePrices } from './measured-prices.ts';
import { priceCalls } from './planner.ts';
import { draftRequest, readRequest } from './request-draft.ts';

interface EstimatesDeps {
  config: Config;
  services: Pick<
    Services,
    'inputs' | 'copies' | 'meter' | 'recordings' | 'pictures' | 'uploads' | 'outbound'
  >;
}

/** @throws GatewayError what refuses the request itself before it reserves */
export type EstimateRequest = (ctx: Context, capability: Capability) => Promise<Estimate>;

/** See the file's head. */
export function createEstimateRequest({ config, services }: EstimatesDeps): EstimateRequest {
  return async (ctx, capability) => {
    const { organizationId } = ctx.state.caller;
    const kept: KeptFile[] = [];
    // Copies belong to a job, here to one that never is.
    const copies = services.copies.of({ organizationId, jobId: newId('job') });
    try {
      const reading = { ...services, read: readRequest, onKeeping: keeperOf(kept) };
      const { draft } = await draftRequest(ctx, capability, reading);
      const { meter } = services;
      const { model, calls } = await measurePrices({ meter, copies }, draft);
      const priced = priceCalls(config, calls);
      return {
        type: capability.type,
        model,
        credits: creditsFromMicro(priced.priceMicro),
        items: priced.calls.map(({ call, unitPriceMicro }) => itemOf(call, unitPriceMicro)),
      };
    } finally {
      discardFiles(services.uploads, kept);
      await copies.discard();
    }
  };
}

const mediumUnits = {
  image: 'image',
  video: 'video',
  audio: 'recording',
  json: 'request',
} as const;

function itemOf(call: DraftCall, unitPriceMicro: number): EstimateItem {
  const { meter = 'artifact', quantity, output, priceNote: note } = call;
  return {
    unit: meter === 'artifact' ? mediumUnits[output.medium] : meter,
    quantity,
    creditsPerUnit: creditsFromMicro(unitPriceMicro),
    credits: creditsFromMicro(unitPriceMicro * quantity),
    ...(note !== undefined && { note }),
  };
}
