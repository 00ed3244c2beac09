/** Starts chat jobs: chats that are answered by a workflow and do not end with the connection. */
import { checkModels, completeOrder, type ChatOrder } from '../../chat/orders.ts';
import type { ChatFormat } from '../../chat/chat-jobs.ts';
import type { ChatRequest } from '../../chat/formats/chat-fields.ts';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { chatJobType, chatTaskQueue } from '../../domain/job-contract.ts';
import { chatPlanVersion, type JobPlan } from '../../domain/job-plan.ts';
import type { JobRecord } from '../../domain/job-record.ts';
import type { HeldClaim } from '../../ledger/claims.ts';
import { parseWebhook, storeWebhooks } from '../../studio/requests/webhook-fields.ts';
import type { RequestedWebhook } from '../../webhooks/webhooks.ts';
import type { Composition } from '../composition.ts';
import type { Context } from '../context.ts';
import { parseIdempotencyKey } from '../http/request-headers.ts';
import { listIgnored, type AnswerFormat } from './chat-answer.ts';
import { withRenamedFields } from './openai/field-names.ts';

/** Request for a chat job, and the format of its endpoint. */
interface ChatJobCall {
  ctx: Context;
  body: ChatRequest;
}

/** Chat job that may be started. */
interface Submission extends ChatJobCall {
  claim: HeldClaim;
  models: ChatOrder['models'];
  webhook: RequestedWebhook | null;
}

/**
 * Starts the chat job of a request, or finds that of an earlier request with the same
 * Idempotency-Key.
 * @throws GatewayError if the request is rejected
 */
export function startChatJob(
  call: ChatJobCall,
  { format, rename }: Pick<AnswerFormat, 'rename'> & { format: ChatFormat },
  services: Composition,
): Promise<JobRecord> {
  return withRenamedFields(async () => {
    const { ctx, body: request } = call;
    const { caller, requestId } = ctx.state;
    const { organizationId } = caller;
    const { outbound, claims, reads } = services;
    const models = await checkModels({ caller, requestId, request }, services);
    const webhook = parseWebhook(request.webhook ?? {}, outbound);
    const claim = await claims.claim({
      organizationId,
      idempotencyKey: parseIdempotencyKey(ctx),
      path: ctx.path,
      body: request,
      subjectId: newId('job'),
    });
    if (claim.state === 'held') await admit({ ...call, claim, models, webhook }, format, services);
    else ctx.set('Idempotent-Replayed', 'true');
    ctx.state.recordRejection = undefined;
    const served = { chat: { servedBy: { model: models[0].id } }, request, models };
    ctx.set(listIgnored(ctx, served, rename));
    const job = await reads.read(organizationId, claim.subjectId);
    if (!job) throw new GatewayError(await reads.missing(organizationId, claim.subjectId));
    return job;
  }, rename);
}

/** Stores the request, and starts the workflow, which reserves the credits. */
async function admit(
  submission: Submission,
  format: ChatFormat,
  services: Composition,
): Promise<void> {
  const { ctx, body: request, claim, models, webhook } = submission;
  const { caller, requestId } = ctx.state;
  const { organizationId } = caller;
  const { chat, chatJobs, webhooks, admission } = services;
  const jobId = claim.subjectId;
  try {
    const order = await completeOrder({ caller, requestId, request }, models, services);
    chat.check({ ...order, stream: true });
    await chatJobs.create({ id: jobId, organizationId, format, request, models });
    const plan = await storeWebhooks(services, buildPlan(submission, services), webhook);
    const updates = await admission.admit(plan, claim);
    updates.end();
    claim.stopRenewal();
  } catch (error) {
    // The rows are deleted only if the job was certainly not started.
    if (await claim.release()) {
      await chatJobs.discard(jobId);
      await webhooks.deleteForJob(jobId);
    }
    throw error;
  }
}

function buildPlan(
  { ctx, body: request, claim, models: [first] }: Submission,
  { config }: Composition,
): JobPlan {
  const { caller, requestId } = ctx.state;
  const { TASK_QUEUE_PREFIX: prefix, CHAT_DEADLINE_MS: deadlineMs } = config;
  return {
    planVersion: chatPlanVersion,
    jobId: claim.subjectId,
    organizationId: caller.organizationId,
    keyId: caller.keyId,
    requestId,
    type: chatJobType,
    model: first.id,
    // The step `reserveChat` decides how much is reserved.
    priceMicro: 0,
    ...(request.metadata && { metadata: request.metadata }),
    request: { model: first.id },
    calls: [],
    assembly: null,
    deadlineAt: new Date(Date.now() + deadlineMs).toISOString(),
    deadlineMs,
    typicalSeconds: null,
    webhook: null,
    outcomeWaitMs: config.OUTCOME_WAIT_MS,
    reservationTtlMs: config.RESERVATION_TTL_MS,
    chatTaskQueue: chatTaskQueue(prefix),
  };
}
