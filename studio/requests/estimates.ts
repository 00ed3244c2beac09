/**
 * Estimates Studio requests: runs the same steps as job-submission.ts up to the price, and starts
 * no job.
 */
import { creditsFromMicro } from '../../domain/credits.ts';
import { newId } from '../../domain/ids.ts';
import type { Capability } from '../capabilities/capability.ts';
import type { DraftCall } from '../../domain/draft-plan.ts';
import type { Composition } from '../../api/composition.ts';
import { countBytes } from '../../api/middleware/shares.ts';
import type { Context } from '../../api/context.ts';
import { priceCalls } from './planner.ts';
import type { Estimate, EstimateItem } from './prices.ts';
import { authorizeRequest, draftRequest, measurePrices } from './request-draft.ts';
import { createFileList } from '../../api/endpoints/body-files.ts';
import { readRequest } from '../../api/endpoints/request-reading.ts';

type Services = Pick<
  Composition,
  'config' | 'inputs' | 'copies' | 'storage' | 'recordings' | 'requestFiles' | 'outbound'
>;

/**
 * Estimates the credits that a Studio request would reserve. Starts no job, reserves nothing, and
 * deletes the files and copies that were stored to measure inputs.
 * @throws GatewayError any error that the request itself can throw before it reserves credits
 */
export async function estimateRequest(
  ctx: Context,
  capability: Capability,
  services: Services,
): Promise<Estimate> {
  const { organizationId } = ctx.state.caller;
  const { config, storage } = services;
  const files = createFileList();
  // Copies are stored under a job id, so an estimate uses a new id that belongs to no job.
  const copies = services.copies.forRequest({
    organizationId,
    jobId: newId('job'),
    countBytes: (bytes) => countBytes(ctx, { kind: 'spool', bytes }),
    readsHeadsOnly: true,
  });
  try {
    const parsedRequest = await readRequest(ctx, capability, { ...services, ...files });
    authorizeRequest(ctx, capability, parsedRequest);
    const { draft } = await draftRequest(
      ctx,
      { capability, parsedRequest },
      { ...services, copies },
    );
    const { model, calls } = await measurePrices({ storage, copies }, draft);
    const pricedCalls = priceCalls(config, calls);
    return {
      type: capability.type,
      model,
      credits: creditsFromMicro(pricedCalls.priceMicro),
      items: pricedCalls.calls.map(({ call, unitPriceMicro }) =>
        toEstimateItem(call, unitPriceMicro),
      ),
    };
  } finally {
    files.discard();
    await copies.discard();
  }
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
