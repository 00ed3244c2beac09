/** What API, workers and workflows agree on: ids, queues, signals, queries and search attributes. */
import { defineSearchAttributeKey } from '@temporalio/common';
import { defineQuery, defineSignal } from '@temporalio/workflow';

/** The workflow of a job: its id is the job's, so operators can paste either. */
export function workflowIdOf(jobId: string): string {
  return jobId;
}

/** Task queue of the Studio workflows, their local activities, and steps on our own servers. */
export function studioTaskQueue(prefix: string): string {
  return `${prefix}studio`;
}

/** Task queue of a provider's calls: its rate limit, its pause, its fairness by organization. */
export function providerTaskQueue(prefix: string, provider: string): string {
  return `${prefix}provider-${provider}`;
}

/** Task queue of the attempts at webhooks: slow receivers must not take the places of jobs. */
export function webhookTaskQueue(prefix: string): string {
  return `${prefix}webhooks`;
}

/** A list of tasks that some worker must poll. */
export interface PolledQueue {
  /** The queue's name without the prefix. */
  name: string;
  queue: string;
  task: 'workflow' | 'activity';
}

/** Everything that the workers of a gateway poll. */
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

/** Which call a provider's notification is about, and the provider's own id of it. */
export interface CallNotification {
  callIndex: number;
  operationId: string;
}

/** A verified notification of a provider. */
export const providerNotification = defineSignal<[CallNotification]>('providerNotification');

/** An operator, or the end of a provider's pause, asks to check now instead of at the next timer. */
export const checkNow = defineSignal('checkNow');

/** Where a job stands, as Current Details show it. */
export interface JobProgress {
  /** In words, e.g. `the provider works` or `charged 3.9 credits`. */
  phase: string;
  calls: { call: number; phase: string; operationId: string | null }[];
  /** Attempts that brought nothing, the last ones. */
  failures: string[];
}

/** Where a job stands. */
export const progressQuery = defineQuery<JobProgress>('progress');

/** The workflow type that tells a caller of a job's end. */
export const webhookDeliveryType = 'webhookDelivery';

/** The delivery of a job's webhook. */
export function deliveryIdOf(jobId: string): string {
  return `${jobId}-webhook`;
}

/** Input of a delivery. */
export interface WebhookDelivery {
  jobId: string;
  organizationId: string;
  /** Where the attempts are made. */
  taskQueue: string;
}

/** Search attributes of every Studio workflow, registered at start-up. */
export const searchAttributes = {
  organizationId: defineSearchAttributeKey('OrganizationId', 'KEYWORD'),
  keyId: defineSearchAttributeKey('KeyId', 'KEYWORD'),
  model: defineSearchAttributeKey('Model', 'KEYWORD'),
  /** The provider that took the job's last call. */
  provider: defineSearchAttributeKey('Provider', 'KEYWORD'),
  /** The provider's own ids of the job's calls. */
  providerRequestId: defineSearchAttributeKey('ProviderRequestId', 'KEYWORD_LIST'),
  jobStatus: defineSearchAttributeKey('JobStatus', 'KEYWORD'),
  billingState: defineSearchAttributeKey('BillingState', 'KEYWORD'),
  /** Why a job failed: a code of the error table (domain/errors.ts). */
  errorCode: defineSearchAttributeKey('ErrorCode', 'KEYWORD'),
  /** `name=value` of the caller's `metadata`. */
  metadata: defineSearchAttributeKey('Metadata', 'KEYWORD_LIST'),
};

/** What a Studio workflow returns. */
export interface JobOutcome {
  jobId: string;
  status: 'completed' | 'failed' | 'canceled' | 'refused';
  billing: 'charged' | 'released' | 'none';
  chargedMicro: number;
  /** Why the ledger refused, or why the job failed. */
  reason: string | null;
}
