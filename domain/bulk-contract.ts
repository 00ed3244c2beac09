/** Names and types of bulk jobs that the API, the workers and the workflow share. */
import { defineSignal } from '@temporalio/workflow';
import type { SearchAttributePair } from '@temporalio/common';
import type { JobPlan } from './job-plan.ts';

/** Workflow type of a bulk job. The workflow id is the id of the bulk job. */
export const bulkWorkflowType = 'studioBulk';

/** Signal that makes the workflow of a bulk job read its row again. */
export const bulkChanged = defineSignal('bulkChanged');

/** Job of an item that begins to await an approval, or whose last wait has ended. */
export interface ItemWait {
  jobId: string;
  awaits: boolean;
}

/** Signal that the job of an item sends to the workflow of its bulk job. */
export const itemWaits = defineSignal<[ItemWait]>('itemWaits');

/** Events of a bulk job that a webhook can report. */
export const bulkEvents = ['paused', 'completed', 'stopped', 'canceled'] as const;
export type BulkEventName = (typeof bulkEvents)[number];

/** Input of the workflow of a bulk job. */
export interface BulkInput {
  bulkId: string;
  organizationId: string;
  /** Task queue of the activity that delivers webhooks. */
  webhookTaskQueue: string;
  /** Interval between reads of the balance while credits are missing, in milliseconds. */
  creditCheckMs: number;
}

/** Input of the step `advance`. */
export interface AdvanceInput {
  bulkId: string;
  /** Ids of the jobs whose end the workflow awaits, without those that await an approval. */
  live: string[];
  /** Ids of the jobs whose reservation the ledger rejected. */
  rejected: string[];
  /** True if the workflow was canceled. */
  cancel: boolean;
}

/** Job to start as a child workflow. */
export interface BulkStart {
  plan: JobPlan;
  staticSummary: string;
  staticDetails: string;
  typedSearchAttributes: SearchAttributePair[];
}

/** State of a bulk job after a step, and what the workflow does next. */
export interface BulkState {
  status: 'in_progress' | 'paused' | 'completed' | 'stopped' | 'canceled';
  stopReason: string | null;
  /** Time until the bulk job is expected to go on; null if it is unknown. */
  resumeInMs: number | null;
  /** True if no job runs and none follows. */
  done: boolean;
  total: number;
  waiting: number;
  /** Number of started items, with those in `awaiting`. */
  running: number;
  /** Number of items whose jobs await an approval; absent in results of 0.1.0. */
  awaiting?: number;
  completed: number;
  failed: number;
  canceled: number;
  chargedMicro: number;
  reservedMicro: number;
  starts: BulkStart[];
  /** True if further items may start at once. */
  hasMore: boolean;
  /** True if chats wait and may start; absent in results of workers that know no chats in bulk jobs. */
  chatsMayStart?: boolean;
  /** Number of running items that are chats. */
  chatsRunning?: number;
  /** Number of items that this step could not start for a temporary reason. */
  postponed: number;
  /** Ids of the running jobs to cancel. */
  toCancel: string[];
  /** Subject of the webhook to deliver; null if there is none. */
  eventId: string | null;
}

/** Input of the activity that answers the chats of a bulk job. */
export interface AnswerChatsInput {
  bulkId: string;
  organizationId: string;
}

/** Result of the activity that answers the chats of a bulk job. */
export interface AnsweredChats {
  /** Subjects of the webhooks to deliver. */
  eventIds: string[];
  /** Minimum time until chats are tried again; null if none was refused for a temporary reason. */
  retryInMs: number | null;
}

/** Result of the workflow of a bulk job. */
export type BulkOutcome = Pick<
  BulkState,
  'status' | 'stopReason' | 'total' | 'completed' | 'failed' | 'canceled' | 'chargedMicro'
>;
