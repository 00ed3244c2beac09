/**
 * What API, workers and workflows agree on: ids, names and task queues. The only file of this folder
 * whose values others may import.
 */
import { defineSearchAttributeKey } from '@temporalio/common';
import type { Refusal } from '../activities/ledger/ledger.ts';

/** The workflow of a job: its id is the job's, so operators can paste either. */
export function workflowIdOf(jobId: string): string {
  return jobId;
}

/** Task queue of the Studio workflows and their local activities. */
export function studioTaskQueue(prefix: string): string {
  return `${prefix}studio`;
}

/** Task queue of a provider's calls: its rate limit, its pause, its fairness by organization. */
export function providerTaskQueue(prefix: string, provider: string): string {
  return `${prefix}provider-${provider}`;
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

/** Signal: a verified notification of a provider. */
export const notificationSignalName = 'providerNotification';

/** Signal: an operator asks to look again now, instead of at the end of the current wait. */
export const lookNowSignalName = 'lookNow';

/** Payload of the notification signal. */
export interface CallNotification {
  callIndex: number;
  operationId: string;
}

/** The workflow type that tells a caller of a job's end. */
export const webhookDeliveryType = 'webhookDelivery';

/** The delivery of a job's webhook. */
export function deliveryIdOf(jobId: string): string {
  return `${jobId}-webhook`;
}

/** Task queue of the attempts at webhooks: slow receivers must not take the places of jobs. */
export function webhookTaskQueue(prefix: string): string {
  return `${prefix}webhooks`;
}

/** Signal: somebody wants the webhook delivered now. */
export const deliverNowSignalName = 'deliverNow';

/** How deliveries are started: names, and where the workflow and its attempts run. */
export function webhookDeliveries(prefix: string) {
  return {
    workflowType: webhookDeliveryType,
    workflowIdOf: deliveryIdOf,
    signalName: deliverNowSignalName,
    taskQueue: studioTaskQueue(prefix),
    attemptTaskQueue: webhookTaskQueue(prefix),
  };
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
  provider: defineSearchAttributeKey('Provider', 'KEYWORD'),
  jobStatus: defineSearchAttributeKey('JobStatus', 'KEYWORD'),
  billingState: defineSearchAttributeKey('BillingState', 'KEYWORD'),
};

/** What a Studio workflow returns. */
export interface JobOutcome {
  jobId: string;
  status: 'completed' | 'failed' | 'canceled' | 'refused';
  billing: 'charged' | 'released' | 'none';
  chargedMicro: number;
  /** Why the ledger refused, or why the job failed. */
  reason: string | null;
  /** The ledger's refusal in full, for a caller whose API process did not see it decided. */
  refusal: Refusal | null;
}
