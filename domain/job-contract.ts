/**
 * Names and types that the API, the workers and the workflows share: ids, task queues, signals,
 * queries and search attributes.
 */
import { defineSearchAttributeKey } from '@temporalio/common';
import { defineQuery, defineSignal } from '@temporalio/workflow';
import type { Rejection } from './credits.ts';

/** Name of the Temporal header that carries the request context. */
export const requestContextHeader = 'request-context';

/** Name of the Temporal header that carries the W3C trace context of a signal's sender. */
export const signalContextHeader = 'signal-context';

/** Context of the request that started a job, as JSON in the Temporal header. */
export interface RequestContext {
  /** Id of the request that started the job. */
  requestId?: string;
  /** W3C trace context of the span that started the workflow; absent if tracing is off. */
  traceparent?: string;
}

/**
 * Returns the workflow id of a job. It equals the job id, so that operators can search for a
 * workflow by job id.
 */
export function jobWorkflowId(jobId: string): string {
  return jobId;
}

/**
 * Time limit of a workflow task, which includes its local activities. The first task of a job takes
 * up to six seconds; a busy worker or an interrupted connection to Temporal may add more. If a
 * second attempt of the task timed out, the SDK could complete a third one without the signals that
 * arrived meanwhile, and the job could not be replayed (docs/decisions/0007). After the death of a
 * worker, its unfinished tasks wait for this time.
 */
export const workflowTaskTimeout = '30s';

/** Returns the task queue of the Studio workflows and of their activities that call no provider. */
export function studioTaskQueue(prefix: string): string {
  return `${prefix}studio`;
}

/**
 * Returns the task queue of a provider's calls. Each provider has its own task queue, so that the
 * number of simultaneous calls is limited per provider and shared fairly between organizations.
 */
export function providerTaskQueue(prefix: string, provider: string): string {
  return `${prefix}provider-${provider}`;
}

/**
 * Returns the task queue of webhook deliveries. Webhooks have their own task queue, so that slow
 * receivers do not occupy the activity slots that jobs need.
 */
export function webhookTaskQueue(prefix: string): string {
  return `${prefix}webhooks`;
}

/** Type of a chat job, and its workflow type. */
export const chatJobType = 'chatAnswer';

/**
 * Returns the task queue of the answers of chat jobs. They have their own task queue, so that long
 * answers do not occupy the activity slots of Studio jobs.
 */
export function chatTaskQueue(prefix: string): string {
  return `${prefix}chats`;
}

/** Task queue that at least one worker must poll. */
export interface PolledQueue {
  /** Name of the task queue without the configured prefix. */
  name: string;
  queue: string;
  task: 'workflow' | 'activity';
}

/** Lists the task queues that the workers of a gateway poll. */
export function polledQueues(prefix: string, providers: readonly string[]): PolledQueue[] {
  const studio = { name: studioTaskQueue(''), queue: studioTaskQueue(prefix) };
  return [
    { ...studio, task: 'workflow' },
    { ...studio, task: 'activity' },
    ...providers.map((provider): PolledQueue => ({
      name: providerTaskQueue('', provider),
      queue: providerTaskQueue(prefix, provider),
      task: 'activity',
    })),
    { name: chatTaskQueue(''), queue: chatTaskQueue(prefix), task: 'activity' },
    { name: webhookTaskQueue(''), queue: webhookTaskQueue(prefix), task: 'activity' },
  ];
}

/** Content of a provider notification: the call index and the id of the operation. */
export interface CallNotification {
  callIndex: number;
  operationId: string;
}

/** Signal that passes a verified provider notification to the workflow. */
export const providerNotification = defineSignal<[CallNotification]>('providerNotification');

/**
 * Signal that makes a workflow check its calls immediately instead of at the next timer. Operators
 * send the signal; the gateway sends it when a paused provider is resumed.
 */
export const checkNow = defineSignal('checkNow');

/** Progress of a job, which Temporal's Current Details show. */
export interface JobProgress {
  /** Phase of the job in words, for example `charged 3.9 credits`. */
  phase: string;
  calls: {
    call: number;
    /** Id of the step of a pipeline; absent in other jobs. */
    step?: string;
    phase: string;
    providerRequestId: string | null;
  }[];
  /** Descriptions of the most recent failed attempts. */
  failures: string[];
}

/** Query that returns the progress of a job. */
export const progressQuery = defineQuery<JobProgress>('progress');

/** Workflow type that delivers a caller webhook. */
export const webhookDeliveryType = 'webhookDelivery';

/** Events of a job that a webhook can report. */
export const webhookEvents = [
  'started',
  'awaiting_approval',
  'completed',
  'failed',
  'canceled',
] as const;
/** Events that end a job. */
export const endEvents = ['completed', 'failed', 'canceled'] as const;
export type WebhookEventName = (typeof webhookEvents)[number];

/**
 * Returns the `subjectId` of the webhook that reports the start of a job. For the webhook that
 * reports the end of a job, `subjectId` is the job id.
 */
export function startSubjectId(jobId: string): string {
  return jobId.replace(/^job_/, 'start_');
}

/** Returns the `subjectId` of the webhook that reports that a step of a job awaits an approval. */
export function waitSubjectId(jobId: string, stepId: string): string {
  return `${jobId.replace(/^job_/, 'wait_')}_${stepId}`;
}

/**
 * Returns what a webhook reports: the id of the event, and for a job the job, the event and the step
 * that awaits an approval. `endpointId` is null if the request named the URL.
 */
export function readSubjectId(subjectId: string): {
  eventId: string;
  endpointId: string | null;
  jobId: string;
  event: 'started' | 'ended' | 'awaiting_approval';
  stepId: string | null;
} {
  const [eventId = '', endpointId = null] = subjectId.split('.');
  const [kind, id, ...stepId] = eventId.split('_');
  const ids = { eventId, endpointId, jobId: `job_${id}`, stepId: null };
  if (kind === 'wait') return { ...ids, event: 'awaiting_approval', stepId: stepId.join('_') };
  return { ...ids, event: kind === 'start' ? 'started' : 'ended' };
}

/** Returns the id of the workflow that delivers a webhook. */
export function deliveryWorkflowId(subjectId: string): string {
  return `${subjectId}-webhook`;
}

/** Input of the webhook delivery workflow. */
export interface WebhookDelivery {
  /**
   * Id of the event that the webhook reports. End of a job: the job id. Other events of a job: the
   * result of `startSubjectId` or `waitSubjectId`. Account notice: the id of the notice. If a webhook
   * endpoint receives it, a dot and the id of the endpoint follow.
   */
  subjectId: string;
  organizationId: string;
  /** Task queue of the activity that delivers the webhook. */
  taskQueue: string;
}

/** Search attributes of Studio workflows. A process registers them when it starts. */
export const searchAttributes = {
  organizationId: defineSearchAttributeKey('OrganizationId', 'KEYWORD'),
  keyId: defineSearchAttributeKey('KeyId', 'KEYWORD'),
  model: defineSearchAttributeKey('Model', 'KEYWORD'),
  /** Provider that most recently accepted a call of the job. */
  provider: defineSearchAttributeKey('Provider', 'KEYWORD'),
  /** Provider request ids of the accepted calls of the job. */
  providerRequestId: defineSearchAttributeKey('ProviderRequestId', 'KEYWORD_LIST'),
  jobStatus: defineSearchAttributeKey('JobStatus', 'KEYWORD'),
  billingState: defineSearchAttributeKey('BillingState', 'KEYWORD'),
  /** Error code (domain/errors.ts), or the reason why the ledger rejected the reservation. */
  errorCode: defineSearchAttributeKey('ErrorCode', 'KEYWORD'),
  /** The caller's `metadata`, as `name=value`. */
  metadata: defineSearchAttributeKey('Metadata', 'KEYWORD_LIST'),
};

/** Result of a Studio workflow. */
export interface JobOutcome {
  jobId: string;
  status: 'completed' | 'failed' | 'canceled' | 'rejected';
  billing: 'charged' | 'released' | 'none';
  chargedMicro: number;
  /**
   * Reason for the status. `failed`, `canceled`: the error code of the job. `rejected`: the reason
   * for which the ledger rejected the reservation. `completed`: null.
   */
  reason: string | null;
  /** Rejection of a `rejected` job. Undefined if an earlier version ended the workflow. */
  rejection?: Rejection;
}
