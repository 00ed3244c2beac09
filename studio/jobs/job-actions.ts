/**
 * Operators' actions on a job. Each one checks the job, records the action with its reason, and
 * performs it. Single actions and action runs are the same functions.
 */
import type { Client } from '@temporalio/client';
import { creditsFromMicro, microFromCredits } from '../../domain/credits.ts';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { formatReceived } from '../../domain/field-messages.ts';
import type { JsonObject } from '../../domain/json.ts';
import { recordAction, type ActionRequest } from '../../identity/operators.ts';
import type { Ledger, RefundResult } from '../../ledger/ledger.ts';
import type { Config } from '../../platform/config.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { WebhookRelay } from '../../webhooks/relay.ts';
import { findWebhook, type WebhookChoice, type Webhooks } from '../../webhooks/webhooks.ts';
import { resettle } from './job-endings.ts';
import { requestCancel, requestCheck } from './job-execution.ts';
import type { JobOverview, JobRecord } from './job-reads.ts';
import type { CallChecker } from './status-checks.ts';

/** Services of the actions. */
interface JobActionDeps {
  pool: DatabasePool;
  config: Config;
  client: Client;
  ledger: Ledger;
  checkCalls: CallChecker;
  jobOverview: JobOverview;
  webhooks: Webhooks;
  webhookRelay: Pick<WebhookRelay, 'redeliver'>;
}

/** Request for an action. An action run sends its id, with which a job has only one record of it. */
export interface JobActionRequest extends ActionRequest {
  bulkActionId?: string;
}

/** Returns the key with which an action run records its action on a job. */
export const actionRunKey = (bulkActionId: string, jobId: string): string =>
  `${bulkActionId}:${jobId}`;

/** Creates the actions. Their errors are GatewayErrors, after which the job is unchanged. */
export function createJobActions(deps: JobActionDeps) {
  const { pool, client, checkCalls, webhooks, webhookRelay } = deps;
  return {
    /** Requests cancellation of a job. @throws GatewayError JOB_ALREADY_DONE */
    async cancel(job: JobRecord, request: JobActionRequest) {
      if (job.status !== 'open') throw new GatewayError('JOB_ALREADY_DONE');
      await record(pool, job, { request, action: 'job.cancel_requested' });
      await requestCancel(client, job.id);
    },
    /** Checks the calls of a job at their providers, and makes its workflow do the same. */
    async reverify(job: JobRecord, request: JobActionRequest) {
      await record(pool, job, { request, action: 'job.reverified' });
      const findings = await checkCalls(job.id);
      const workflowSignaled = job.status === 'open' && (await requestCheck(client, job.id));
      return { findings, workflowSignaled };
    },
    /** Settles a job whose workflow is gone. @throws GatewayError like `resettle` */
    async resettle(job: JobRecord, request: JobActionRequest, { release = false } = {}) {
      if (job.status !== 'open') throw new GatewayError('JOB_ALREADY_DONE');
      await record(pool, job, { request, action: 'job.resettled', details: { release } });
      return resettle(job, release, deps);
    },
    /** Delivers the webhooks of an ended job or of a step again. @throws GatewayError NOT_FOUND, JOB_NOT_DONE */
    async redeliver(
      job: JobRecord,
      request: JobActionRequest,
      chosen: Pick<WebhookChoice, 'step' | 'endpointId'> = {},
    ) {
      const choice = { ...chosen, jobId: job.id, organizationId: job.organizationId };
      await findWebhook(webhooks, choice);
      if (job.status === 'open' && chosen.step === undefined)
        throw new GatewayError('JOB_NOT_DONE');
      await record(pool, job, { request, action: 'webhook.redelivery_requested' });
      await webhookRelay.redeliver(choice);
    },
    /**
     * Refunds charged credits of a job, by default all that are left.
     * @throws GatewayError JOB_NOT_REFUNDABLE, IDEMPOTENCY_KEY_REUSED, INVALID_REQUEST
     */
    refund: (job: JobRecord, request: JobActionRequest, options: RefundOptions) =>
      refund(deps, job, { request, ...options }),
  };
}
export type JobActions = ReturnType<typeof createJobActions>;

interface JobActionRecord {
  request: JobActionRequest;
  action: string;
  details?: JsonObject;
  key?: string;
}

/** Records an action. An action run has one record for each job. */
function record(
  pool: DatabasePool,
  { id: subject, organizationId }: JobRecord,
  { request: { bulkActionId, ...request }, action, details = {}, key }: JobActionRecord,
): Promise<void> {
  return recordAction(pool, request, {
    action,
    subject,
    organizationId,
    details: { ...details, ...(bulkActionId !== undefined && { bulkActionId }) },
    actionKey: bulkActionId === undefined ? key : actionRunKey(bulkActionId, subject),
  });
}

interface RefundOptions {
  refundId: string;
  /** Credits to refund; undefined for all that are left. */
  credits?: number | undefined;
}

async function refund(
  { pool, ledger, jobOverview }: JobActionDeps,
  job: JobRecord,
  { request, refundId, credits }: RefundOptions & { request: JobActionRequest },
) {
  const { actor, reason } = request.body;
  const result = await ledger.refund({
    organizationId: job.organizationId,
    id: job.id,
    refundId,
    amountMicro: credits === undefined ? undefined : microFromCredits(credits),
    actor,
    reason,
  });
  // The job was archived after it was found.
  if (result.verdict === 'not_reserved') throw new GatewayError(await jobOverview.missing(job.id));
  if (result.verdict === 'mismatch') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
  if (result.verdict === 'not_refundable') throw refundError(result, credits);
  // The refund is committed: a crash here loses its record until the request is repeated.
  await record(pool, job, {
    request,
    action: 'job.refunded',
    details: { id: refundId, credits: creditsFromMicro(result.amount) },
    key: `refund:${job.id}:${refundId}`,
  });
  return result;
}

/** Returns the error for a rejected refund: nothing is left to refund, or less than requested. */
function refundError(
  { state, charged, refunded }: Extract<RefundResult, { verdict: 'not_refundable' }>,
  credits: number | undefined,
): GatewayError {
  const remainingCredits = creditsFromMicro(charged - refunded);
  const amounts = { charged: creditsFromMicro(charged), refunded: creditsFromMicro(refunded) };
  if (remainingCredits > 0) {
    const requirement = `must be at most ${remainingCredits}, the charged credits that have not been refunded yet`;
    return fieldError('INVALID_REQUEST', 'credits', `${requirement}${formatReceived(credits)}`);
  }
  const message = `Only charged credits can be refunded: the job is ${state}, ${amounts.charged} credits were charged and ${amounts.refunded} refunded.`;
  return new GatewayError('JOB_NOT_REFUNDABLE', message, { body: { state, ...amounts } });
}
