/** A Studio request as a draft of its plan: read, planned, allowed to this key, its inputs checked. Nothing is started. */
import type { Inputs } from '../../activities/inputs/inputs.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Capability, DraftPlan } from '../../studio/capability.ts';
import type { Context } from '../context.ts';
import { authorizeModel } from '../middleware/authenticate.ts';
import type { ReadingDeps, ReadRequestOf } from './request-reading.ts';

/** See the file's head. */
export interface DraftedRequest {
  request: JsonObject;
  /** What a repeat has to say to be the same request. */
  sameAs: JsonObject;
  /** Whom to tell of the job's end; null: nobody. */
  webhookUrl: string | null;
  /** Prices that depend on an input are not measured yet. */
  draft: DraftPlan;
}

/** What a request is read and drafted with. */
export type DraftingDeps = ReadingDeps & { inputs: Inputs; read: ReadRequestOf };

/** @throws GatewayError what refuses the request before anything is reserved */
export async function draftRequest(
  ctx: Context,
  capability: Capability,
  deps: DraftingDeps,
): Promise<DraftedRequest> {
  const { caller } = ctx.state;
  const read = await deps.read(ctx, capability, deps);
  const { request, recording, webhookUrl, sameAs = request } = read;
  const planned = capability.plan(request, recording);
  authorizeModel(caller, planned.model);
  const draft = await deps.inputs.prepare(planned, caller.organizationId);
  return { request, sameAs, webhookUrl, draft };
}
