/**
 * Names and types that the API, the workers and the workflows share: ids, task queues, signals,
 * queries and search attributes.
 */
import { defineSearchAttributeKey } from '@temporalio/common';
import { defineQuery, defineSignal } from '@temporalio/workflow';

/**
 * Returns the workflow id of a job. It is the job id, so that operators can search for a workflow
 * by job id.
 */
export function jobWorkflowId(jobId: string): string {
  return jobId;
}

/** Returns the task queue of the Studio workflows and of their activities that call no provider. */
export function studioTaskQueue(prefix: string): string {
  return `${prefix}studio`;
}

/**
 * Returns the task queue of a provider's calls. Each provider has its own, so that its concurrency
 * is limited and shared fairly between organizations.
 */
export function providerTaskQueue(prefix: string, provider: string): string {
  return `${prefix}provider-${provider}`;
}

/**
 * Returns the task queue of webhook deliveries. It is separate, so that slow receivers do not
 * occupy the slots that jobs need.
 */
export function webhookTaskQueue(prefix: string): string {
  return `${prefix}webhooks`;
}

/** A task queue that at least one worker must poll. */
export interface PolledQueue {
  /** The queue's name without the prefix. */
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
    { name: webhookTaskQueue(''), queue: webhookTaskQueue(prefix), task: 'activity' },
  ];
}

/** Content of a provider notification: the call, and the provider's operation id. */
export interface CallNotification {
  callIndex: number;
  operationId: string;
}

/** Signal with a verified provider notification. */
export const providerNotification = defineSignal<[CallNotification]>('providerNotification');

/**
 * Signal that makes a workflow check its calls now instead of at the next timer. Operators send it,
 * and the gateway sends it when a provider is resumed.
 */
export const checkNow = defineSignal('checkNow');

/** Progress of a job, as shown in Temporal's Current Details. */
export interface JobProgress {
  /** Phase as operators see it, for example `charged 3.9 credits`. */
  phase: string;
  calls: { call: number; phase: string; providerRequestId: string | null }[];
  /** The most recent failed attempts. */
  failures: string[];
}

/** Query that returns the progress of a job. */
export const progressQuery = defineQuery<JobProgress>('progress');

/** Workflow type that delivers a caller webhook. */
export const webhookDeliveryType = 'webhookDelivery';

/** Events of a job that its webhook may report. */
export const webhookEvents = ['started', 'completed', 'failed', 'canceled'] as const;
export type WebhookEventName = (typeof webhookEvents)[number];

/**
 * Returns the subject id of the webhook that reports the start of a job. The webhook that reports
 * its end has the job id as its subject id.
 */
export function startSubjectId(jobId: string): string {
  return jobId.replace(/^job_/, 'start_');
}

/**
 * Returns the id of the job whose start a webhook reports. Returns null if the webhook reports
 * something else.
 */
export function findStartedJobId(subjectId: string): string | null {
  return subjectId.startsWith('start_') ? subjectId.replace(/^start_/, 'job_') : null;
}

/** Returns the id of the workflow that delivers a webhook. */
export function deliveryWorkflowId(subjectId: string): string {
  return `${subjectId}-webhook`;
}

/** Input of the webhook delivery workflow. */
export interface WebhookDelivery {
  /**
   * Id of the event that the webhook reports: a job id for the end of the job, `startSubjectId` for
   * its start, or the id of an account notice.
   */
  subjectId: string;
  organizationId: string;
  /** Task queue of the delivery attempts. */
  taskQueue: string;
}

/** Search attributes of every Studio workflow, registered at start-up. */
export const searchAttributes = {
  organizationId: defineSearchAttributeKey('OrganizationId', 'KEYWORD'),
  keyId: defineSearchAttributeKey('KeyId', 'KEYWORD'),
  model: defineSearchAttributeKey('Model', 'KEYWORD'),
  /** Provider that accepted the job's last call. */
  provider: defineSearchAttributeKey('Provider', 'KEYWORD'),
  /** Provider request ids of the job's calls. */
  providerRequestId: defineSearchAttributeKey('ProviderRequestId', 'KEYWORD_LIST'),
  jobStatus: defineSearchAttributeKey('JobStatus', 'KEYWORD'),
  billingState: defineSearchAttributeKey('BillingState', 'KEYWORD'),
  /** Error code of a failed job (domain/errors.ts). */
  errorCode: defineSearchAttributeKey('ErrorCode', 'KEYWORD'),
  /** The caller's `metadata`, as `name=value`. */
  metadata: defineSearchAttributeKey('Metadata', 'KEYWORD_LIST'),
};

/** Result of a Studio workflow. */
export interface JobOutcome {
  jobId: string;
  status: 'completed' | 'failed' | 'canceled' | 'refused';
  billing: 'charged' | 'released' | 'none';
  chargedMicro: number;
  /**
   * Why the ledger rejected the reservation, or the error code of a job that failed or was
   * canceled; otherwise null.
   */
  reason: string | null;
}
