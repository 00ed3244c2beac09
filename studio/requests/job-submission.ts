/**
 * Submits a Studio request: reads it, claims its Idempotency-Key, plans and prices the job, starts
 * it and waits for it.
 */
import type { JobRecord } from '../jobs/job-reads.ts';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { respondsWith202, type Capability } from '../capabilities/capability.ts';
import type { Composition } from '../../api/composition.ts';
import type { Context } from '../../api/context.ts';
import { parsePreferredWaitMs } from '../../api/http/prefer.ts';
import type { HeldClaim } from '../../ledger/claim-renewal.ts';
import { closedSignal, countBytes } from '../../api/middleware/shares.ts';
import type { JobSubscription } from '../jobs/job-topics.ts';
import { completePlan } from './planner.ts';
import { authorizeRequest, draftRequest, measurePrices } from './request-draft.ts';
import { createFileList } from '../../api/endpoints/body-files.ts';
import {
  type ParsedRequest,
  readRequest,
  type RequestBodyReader,
} from '../../api/endpoints/request-reading.ts';

type Services = Pick<
  Composition,
  | 'config'
  | 'admission'
  | 'jobWaits'
  | 'claims'
  | 'inputs'
  | 'copies'
  | 'storage'
  | 'recordings'
  | 'requestFiles'
  | 'webhooks'
  | 'outbound'
>;

/** Parsed request, with the claim of its Idempotency-Key. */
interface ClaimedRequest {
  capability: Capability;
  parsedRequest: ParsedRequest;
  claim: HeldClaim;
}

/** Job of this request, or of the earlier request with the same Idempotency-Key. */
interface StartResult {
  jobId: string;
  replayed: boolean;
  updates: JobSubscription | null;
  waitMs: number;
}

/** Options of a Studio endpoint: how it reads a request, and how long the request may wait. */
export interface RequestOptions {
  capability: Capability;
  /** Reads the request body. Defaults to the format of the capability's own endpoint. */
  readBody?: RequestBodyReader;
  /** Maximum time to wait for the job to end, in milliseconds. Defaults to SYNC_WAIT_MS. */
  waitMaxMs?: number;
}

/** Started job of a request. */
interface StartedJob {
  jobId: string;
  /**
   * Waits for the job to end, but not longer than the request allows. `waited` is false if the
   * request was asynchronous. Must be called at most once.
   * @throws GatewayError SERVICE_UNAVAILABLE
   */
  awaitEnd: () => Promise<{ job: JobRecord; waited: boolean }>;
}

/**
 * Starts the job of a Studio request, or finds the job of an earlier request with the same
 * Idempotency-Key.
 * @throws GatewayError if the request is rejected
 */
export async function startJob(
  ctx: Context,
  reader: RequestOptions,
  services: Services,
): Promise<StartedJob> {
  const { organizationId } = ctx.state.caller;
  const { jobId, replayed, updates, waitMs } = await startOrFind(ctx, reader, services);
  return {
    jobId,
    async awaitEnd() {
      const signal = closedSignal(ctx);
      const job = await services.jobWaits.awaitEnd(
        { organizationId, jobId, updates, signal },
        waitMs,
      );
      if (!job) {
        throw new GatewayError('SERVICE_UNAVAILABLE', 'The job could not be started.', {
          retryAfterSeconds: 2,
        });
      }
      // Asynchronous requests always receive 202, but a replay may receive the result.
      return { job, waited: waitMs > 0 || replayed };
    },
  };
}

/**
 * Starts the job of a Studio request and waits for it to end (`startJob`).
 * @throws GatewayError if the request is rejected
 */
export async function submitJob(
  ctx: Context,
  reader: RequestOptions,
  services: Services,
): Promise<{ job: JobRecord; waited: boolean }> {
  const { awaitEnd } = await startJob(ctx, reader, services);
  return awaitEnd();
}

/**
 * Starts the job of a request, or finds the job of an earlier request with the same
 * Idempotency-Key. The key is claimed before any input is resolved.
 */
async function startOrFind(
  ctx: Context,
  { capability, readBody = readRequest, waitMaxMs }: RequestOptions,
  services: Services,
): Promise<StartResult> {
  const files = createFileList();
  try {
    const parsedRequest = await readBody(ctx, capability, { ...services, ...files });
    authorizeRequest(ctx, capability, parsedRequest);
    const { request, webhook, metadata } = parsedRequest;
    const waitMs = respondsWith202(capability, request)
      ? 0
      : parsePreferredWaitMs(ctx, waitMaxMs ?? services.config.SYNC_WAIT_MS);
    const options = {
      ...(webhook && { webhookUrl: webhook.url, webhookEvents: webhook.events }),
      ...(metadata && { metadata }),
    };
    const claim = await services.claims.claim(ctx, {
      path: capability.path,
      body: Object.keys(options).length === 0 ? request : { request, ...options },
      subjectId: newId('job'),
    });
    const { subjectId: jobId } = claim;
    if (claim.state === 'done') {
      ctx.set('Idempotent-Replayed', 'true');
      files.discard();
      return { jobId, replayed: true, updates: null, waitMs };
    }
    const updates = await admit(ctx, { capability, parsedRequest, claim }, services);
    return { jobId, replayed: false, updates, waitMs };
  } catch (error) {
    // If the error contains a job id, the job with this id may still run and needs the files.
    const startedNothing = error instanceof GatewayError && error.body?.['jobId'] === undefined;
    if (startedNothing) files.discard();
    throw error;
  }
}

async function admit(
  ctx: Context,
  { capability, parsedRequest, claim }: ClaimedRequest,
  services: Services,
): Promise<JobSubscription> {
  const { caller, requestId } = ctx.state;
  const { organizationId } = caller;
  const { config, admission, webhooks, storage } = services;
  const { webhook, metadata } = parsedRequest;
  const jobId = claim.subjectId;
  const copies = services.copies.forRequest({
    organizationId,
    jobId,
    countBytes: (bytes) => countBytes(ctx, { kind: 'spool', bytes }),
  });
  try {
    const { request, draft: unpricedDraft } = await draftRequest(
      ctx,
      { capability, parsedRequest },
      { ...services, copies },
    );
    const draft = await measurePrices({ storage, copies }, unpricedDraft);
    const planInput = { requestId, caller, capability, request, metadata, webhook, draft };
    const plan = completePlan(config, { ...planInput, jobId });
    // The webhook is stored before the start, so that no started job lacks its webhook.
    if (webhook) await webhooks.createForJob({ jobId, organizationId, ...webhook });
    const updates = await admission.admit(plan, claim);
    claim.stopRenewal();
    return updates;
  } catch (error) {
    // The claim, the webhook and the copied inputs are deleted only if the job was certainly not
    // started, because a started job may run despite the error.
    if (await claim.release()) {
      await copies.discard();
      if (webhook) await webhooks.deleteForJob(jobId);
    }
    throw error;
  }
}
