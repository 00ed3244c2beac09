/**
 * Decisions about steps of pipelines that wait for an approval: what the API sends to the workflow,
 * and what the workflow records in the row of the job.
 */
import { defineUpdate } from '@temporalio/workflow';
import type { JsonObject } from './json.ts';
import type { CallOutputs, PlannedCall } from './job-plan.ts';
import type { StepApproval } from './job-record.ts';
import type { PipelineStep } from './pipeline-plan.ts';

/** Decision about a step. */
export interface Decision {
  stepId: string;
  kind: 'approve' | 'reject';
  /** Hash of the request, by which a repeated decision is recognized. */
  hash: string;
  keyId: string;
  reason: string | null;
  /** Indexes of the chosen outputs, by the id of the earlier step. */
  outputs: Record<string, number>;
  /** Body with which the step runs, as the job's request shows it; absent if it is rejected. */
  body?: JsonObject;
  /** Step and calls that a changed body plans; absent if the step runs as it was planned. */
  changed?: { step: PipelineStep; calls: PlannedCall[] };
}

/**
 * Update that decides about a step. Its validator rejects a decision before it enters the history,
 * with the failure types NOT_AWAITING, ALREADY_DECIDED and SAME_DECISION. It returns once the decision
 * is recorded.
 */
export const decideUpdate = defineUpdate<void, [Decision]>('decide');

/**
 * End of the wait of a step, as the row of the job keeps it: a workflow that is reset takes it from
 * there.
 */
export interface ApprovalEnd extends NonNullable<StepApproval['end']> {
  outputs: Decision['outputs'];
  changed: NonNullable<Decision['changed']> | null;
}

/** Row of a job after an event: the end of the wait, and the ids of the webhooks to deliver. */
export interface RecordedApproval {
  end: ApprovalEnd | null;
  webhookIds?: string[];
  /** Webhook to deliver, in results that were recorded before there were webhook endpoints. */
  webhookId?: string | null;
  /** Page of the job in the console. */
  jobUrl: string;
}

/** Beginning or end of the wait of a step. */
export interface ApprovalEvent {
  jobId: string;
  stepId: string;
  /** Position of the step in the request. */
  index: number;
  sinceMs: number;
  untilMs: number;
  change:
    | { kind: 'begin'; outputs: CallOutputs[] }
    | { kind: 'end'; end: ApprovalEnd; body: JsonObject | null };
}

/** Codes of the errors with which a step ends that was not approved. */
export const unapprovedCodes: readonly string[] = ['APPROVAL_REJECTED', 'APPROVAL_TIMEOUT'];
