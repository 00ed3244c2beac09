/** Creates all activities of the workers. Workflows import only types from this file. */
import type { Client } from '@temporalio/client';
import type { ApprovalEvent } from '../domain/approvals.ts';
import type { ActInput } from '../domain/action-contract.ts';
import type { AdvanceInput, AnswerChatsInput } from '../domain/bulk-contract.ts';
import type { CallInput, JobPlan } from '../domain/job-plan.ts';
import type { Config } from '../platform/config.ts';
import { actOnJobs } from './act-on-jobs.ts';
import { adopt } from './adopt.ts';
import { advance, answerItems } from './advance.ts';
import { assemble, type AssemblyInput } from './assemble.ts';
import { attempt, attemptInSlot, type ProviderCallDeps } from './attempt.ts';
import {
  answerChat,
  chatAnswersMax,
  reserveChat,
  settleChat,
  type ChatToAnswer,
  type ChatToSettle,
} from './answer-chat.ts';
import { awaitResume } from './await-resume.ts';
import type { ChatService } from './chat.ts';
import { cancel } from './cancel.ts';
import { completeStep, type StepToComplete } from './complete-step.ts';
import { charge, type DeliveredJob, release } from './settle.ts';
import { check } from './check.ts';
import { createDeliveries, type DeliveryDeps } from './deliver-webhook.ts';
import { markVerifying } from './mark-verifying.ts';
import type { UndeliveredJob } from '../ledger/ledger.ts';
import { reserve } from './reserve.ts';
import { createRelays, publicBaseUrl, type Services } from '../process/services.ts';
import { createShares } from '../platform/shares.ts';
import { createChatPlaces } from '../bulk/bulk-chats.ts';
import { createBulkEventReader } from '../bulk/bulk-view.ts';
import { createJobActions } from '../studio/jobs/job-actions.ts';
import { createJobOverview } from '../studio/jobs/job-reads.ts';
import { recordApproval } from './record-approval.ts';
import { store } from './store.ts';
import { submit } from './submit.ts';

/**
 * Creates the activities that call providers. Each activity that sends a request to a provider
 * occupies a slot of this provider.
 */
export function createCallActivities(deps: ProviderCallDeps) {
  function inSlot<Task extends CallInput, Outcome>(
    activity: (deps: ProviderCallDeps, task: Task) => Promise<Outcome>,
  ) {
    return (task: Task): Promise<Outcome> =>
      attemptInSlot(deps.slots, task, () => activity(deps, task));
  }
  return {
    submit: inSlot(submit),
    adopt: (task: CallInput) =>
      attempt(() => adopt(deps, task), { detail: { provider: task.route.provider } }),
    awaitResume: (routes: CallInput[]) => awaitResume(deps, routes),
    check: inSlot(check),
    store: inSlot(store),
    cancel: inSlot(cancel),
  };
}
/** Activities of provider calls. */
export type CallActivities = ReturnType<typeof createCallActivities>;

interface ActivityOptions {
  config: Config;
  client: Client;
  /** Answers chat jobs, and chats of bulk jobs. */
  chat: ChatService;
  /** Returns the representation of a job in API responses. */
  showJob: DeliveryDeps['showJob'];
}

/** Creates all activities. */
export function createActivities(
  services: Services,
  { config, client, chat, showJob }: ActivityOptions,
) {
  const { webhookRelay } = createRelays(services, client, config);
  const jobOverview = createJobOverview(services.pool);
  const actionDeps = { ...services, config, client, jobOverview, webhookRelay };
  const jobActions = createJobActions(actionDeps);
  const chatPlaces = createChatPlaces(config.BULK_CHATS_MAX);
  const chatDeps = { ...services, chat, chatSlots: createShares(chatAnswersMax) };
  return {
    reserve: (plan: JobPlan) => reserve(services, plan),
    ...createCallActivities(services),
    completeStep: (task: StepToComplete) => completeStep(services, task),
    recordApproval: (event: ApprovalEvent) =>
      recordApproval({ ...services, publicBaseUrl: publicBaseUrl(config) }, event),
    assemble: (task: AssemblyInput) => assemble(services, task),
    reserveChat: (plan: JobPlan) => reserveChat(chatDeps, plan),
    answerChat: (task: ChatToAnswer) => answerChat(chatDeps, task),
    settleChat: (task: ChatToSettle) => settleChat(services, task),
    charge: (job: DeliveredJob) => charge(services, job),
    release: (job: UndeliveredJob) => release(services, job),
    markVerifying: (jobId: string) => markVerifying(services, jobId),
    actOnJobs: (step: ActInput) => actOnJobs({ ...actionDeps, jobActions }, step),
    advance: (step: AdvanceInput) => advance({ ...services, config, client, chat }, step),
    answerItems: (task: AnswerChatsInput) => answerItems({ ...services, chat, chatPlaces }, task),
    ...createDeliveries({
      ...services,
      showJob,
      readJob: services.reads.read,
      readBulkEvent: createBulkEventReader(services, publicBaseUrl(config)),
      timeoutMs: config.WEBHOOK_TIMEOUT_MS,
      retryDelaysMs: config.WEBHOOK_RETRY_DELAYS_MS,
    }),
  };
}
/** Activities of the Studio task queue, the provider task queues and the webhook task queue. */
export type Activities = ReturnType<typeof createActivities>;
