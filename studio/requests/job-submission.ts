/**
 * Submits a Studio request: claims its Idempotency-Key, plans and prices the job, starts it and
 * waits for it.
 */
import type { DraftPlan } from '../../domain/draft-plan.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { JobPlan } from '../../domain/job-plan.ts';
import { newId } from '../../domain/ids.ts';
import type { Claims, HeldClaim } from '../../ledger/claims.ts';
import type { Webhooks } from '../../webhooks/webhooks.ts';
import { respondsWith202 } from '../capabilities/capability.ts';
import type { Admission } from '../jobs/admission.ts';
import type { JobRecord } from '../jobs/job-reads.ts';
import type { Subscription, Waits } from '../executions/updates.ts';
import type { PricingServices } from './estimates.ts';
import { completePlan } from './planner.ts';
import { storeWebhooks } from './webhook-fields.ts';
import {
  authorizeRequest,
  draftRequest,
  measurePrices,
  type StudioRequest,
} from './request-draft.ts';

/** Services that submit a request. */
interface Services extends PricingServices {
  admission: Admission;
  jobWaits: Waits<JobRecord>;
  claims: Claims;
  webhooks: Webhooks;
}

/** Request for a job. */
export interface Submission extends StudioRequest {
  requestId: string;
  /** Null if the request has no Idempotency-Key. */
  idempotencyKey: string | null;
  /** Maximum time to wait for the job to end, in milliseconds; a queued job is not waited for. */
  waitMs: number;
  /** Ends the wait early, because the caller has disconnected. */
  signal: AbortSignal;
}

/** Started job of a request. */
export interface StartedJob {
  jobId: string;
  /** True if an earlier request with the same Idempotency-Key started the job. */
  replayed: boolean;
  /**
   * Waits for the job to end, but not longer than the request allows. `waited` is false if the
   * request was asynchronous. Must be called at most once.
   * @throws GatewayError SERVICE_UNAVAILABLE
   */
  awaitEnd: () => Promise<{ job: JobRecord; waited: boolean }>;
}

/**
 * Starts the job of a Studio request, or finds the job of an earlier request with the same
 * Idempotency-Key. The key is claimed before any input is resolved.
 * @throws GatewayError if the request is rejected
 */
export async function startJob(submission: Submission, services: Services): Promise<StartedJob> {
  const plan = authorizeRequest(submission);
  const claim = await services.claims.claim(buildClaim(submission));
  const replayed = claim.state === 'done';
  const updates = replayed ? null : await admit(submission, { claim, plan }, services);
  const { capability, caller, parsedRequest, signal } = submission;
  const isQueued = respondsWith202(capability, parsedRequest.request);
  const waitMs = isQueued ? 0 : submission.waitMs;
  const { subjectId: jobId } = claim;
  const { organizationId } = caller;
  return {
    jobId,
    replayed,
    async awaitEnd() {
      const awaited = { organizationId, id: jobId, updates, signal };
      const job = await services.jobWaits.awaitEnd(awaited, waitMs);
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

function buildClaim({ caller, idempotencyKey, capability, parsedRequest }: Submission) {
  const { request, webhook, metadata } = parsedRequest;
  const options = {
    ...(webhook && { webhookUrl: webhook.url, webhookEvents: webhook.events }),
    ...(metadata && { metadata }),
  };
  return {
    organizationId: caller.organizationId,
    idempotencyKey,
    path: capability.path,
    body: Object.keys(options).length === 0 ? request : { request, ...options },
    subjectId: newId('job'),
  };
}

async function admit(
  submission: Submission,
  { claim, plan: unmeasured }: { claim: HeldClaim; plan: DraftPlan },
  services: Services,
): Promise<Subscription> {
  const { caller, requestId, capability, parsedRequest, countCopied: countBytes } = submission;
  const { organizationId } = caller;
  const { config, admission, webhooks, storage } = services;
  const { webhook, metadata, recipe } = parsedRequest;
  const jobId = claim.subjectId;
  const copies = services.copies.forRequest({ organizationId, jobId, countBytes });
  let plan: JobPlan | undefined;
  try {
    const deps = { ...services, copies };
    const { request, draft: unpriced } = await draftRequest(submission, unmeasured, deps);
    const draft = await measurePrices({ config, storage, copies }, unpriced);
    const prices = await services.priceBook.at(organizationId);
    const planInput = { requestId, caller, capability, request, metadata, recipe, draft, prices };
    plan = await storeWebhooks(services, completePlan(config, { ...planInput, jobId }), webhook);
    const updates = await admission.admit(plan, claim);
    claim.stopRenewal();
    return updates;
  } catch (error) {
    // The claim, the webhooks and the copied inputs are deleted only if the job was certainly not
    // started, because a started job may run despite the error.
    if (await claim.release()) {
      await copies.discard();
      if (plan?.webhook) await webhooks.deleteForJob(jobId);
    }
    throw error;
  }
}
