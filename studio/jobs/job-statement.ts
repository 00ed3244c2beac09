/**
 * Describes the progress of a job, the reason of its failure and its cost in sentences for people. The
 * timeline shows them to callers, and the explanation of a job to operators.
 */
import { formatCredits } from '../../domain/credits.ts';
import { errorTable } from '../../domain/errors.ts';
import { chatJobType } from '../../domain/job-contract.ts';
import { listAwaiting } from '../pipelines/approval-view.ts';
import { finishStep } from '../pipelines/pipeline-requests.ts';
import { describeCall, type JobCall } from './job-calls.ts';
import type { JobRecord } from './job-reads.ts';

/** Statement about a job. */
export interface JobStatement {
  why: string;
  /** True while it is unknown whether a provider accepted, or delivers, a call. */
  outcomeUnknown: boolean;
}

type StatementJob = Pick<
  JobRecord,
  | 'status'
  | 'reserved'
  | 'charged'
  | 'refunded'
  | 'error'
  | 'deadlineAtMs'
  | 'verifying'
  | 'steps'
  | 'outputs'
  | 'approvals'
>;

/** Describes the state of a job and its credits. */
export function describeJob(job: StatementJob, calls: readonly JobCall[]): JobStatement {
  const reserved = formatCredits(job.reserved);
  switch (job.status) {
    case 'open':
      return describeOpenJob(job, calls);
    case 'completed': {
      const charged = job.charged ?? 0;
      const rest =
        charged < job.reserved
          ? ` ${formatCredits(job.reserved - charged)} of the reserved ${reserved} were released.`
          : '';
      const refund = job.refunded > 0 ? ` ${formatCredits(job.refunded)} were refunded.` : '';
      const why = `${describeDelivery(job)}, and ${formatCredits(charged)} were charged.${rest}${refund}`;
      return { why, outcomeUnknown: false };
    }
    case 'canceled':
      return {
        why: `Canceled. ${describeUndelivered(job)}.`,
        outcomeUnknown: false,
      };
    case 'failed': {
      const message = job.error?.message.replace(/\.$/, '') ?? 'The job failed';
      const sentence = message.charAt(0).toUpperCase() + message.slice(1);
      const advice =
        job.error && errorTable[job.error.code].retryable
          ? 'The same request may succeed later.'
          : 'The same request would fail again.';
      const why = `${sentence}. ${describeUndelivered(job)}. ${advice}`;
      return { why, outcomeUnknown: false };
    }
    default:
      return job.status satisfies never;
  }
}

/** Describes the credits of a job that failed or was canceled. Only a chat job may be charged for a part. */
function describeUndelivered({ charged, reserved }: StatementJob): string {
  if (!charged) return `Nothing was charged; ${formatCredits(reserved)} were released`;
  return `${formatCredits(charged)} were charged for what was delivered`;
}

/** Describes the settlement of a job that failed or was canceled, for operators. */
export const describeSettlement = ({ charged, reserved }: StatementJob): string =>
  charged ? `charged ${formatCredits(charged)}` : `released ${formatCredits(reserved)}`;

/** Returns the number of the outputs of a job; a chat job delivers the answer. */
export function describeOutputs({ type, outputs }: Pick<JobRecord, 'type' | 'outputs'>): string {
  if (type === chatJobType) return 'the answer';
  const count = (outputs ?? []).flatMap(({ artifacts }) => artifacts).length;
  return count === 1 ? '1 file' : `${count} files`;
}

/** Describes which steps of a pipeline delivered, or that the result of another job was delivered. */
function describeDelivery({ steps, outputs }: StatementJob): string {
  if (!steps) return 'The result was delivered';
  const finished = steps.map((step) => finishStep(step, outputs ?? []));
  const count = finished.filter(({ status }) => status === 'completed').length;
  const failed = finished.filter(({ status }) => status === 'failed');
  const names = failed.map(({ step, error }) => `${step.id} failed with ${error?.code}`);
  const note = failed.length > 0 ? ` (${names.join(', ')})` : '';
  return `${count} of ${steps.length} steps delivered${note}`;
}

/** States of calls in the order in which they hold up a job. */
const holdups = ['waiting', 'not_accepted', 'accepted', 'begun', 'answered'];

/** Describes the call that holds up an open job the most. */
function describeOpenJob(job: StatementJob, calls: readonly JobCall[]): JobStatement {
  const described = calls
    .toSorted((one, other) => holdups.indexOf(one.state) - holdups.indexOf(other.state))
    .map((call) => ({ provider: call.provider, ...describeCall(call, job.verifying) }));
  const unconfirmed = described.find(({ outcomeUnknown }) => outcomeUnknown);
  if (unconfirmed) {
    const { provider, forCallers } = unconfirmed;
    const why = `${forCallers} Decided by ${formatTime(job.deadlineAtMs)}; nothing is charged unless ${provider} delivers.`;
    return { why, outcomeUnknown: true };
  }
  const waiting = listAwaiting(job);
  if (waiting.length > 0) {
    const names = waiting.map(({ step: { id } }) => id).join(', ');
    const until = formatTime(Math.min(...waiting.map(({ approval }) => approval.untilMs)));
    const why = `${names}: waits for your decision until ${until}. ${formatCredits(job.reserved)} are reserved; only what is delivered is charged.`;
    return { why, outcomeUnknown: false };
  }
  const progress = described[0]?.forCallers ?? 'The job is about to be sent.';
  return {
    why: `${progress} ${formatCredits(job.reserved)} are reserved; only what is delivered is charged.`,
    outcomeUnknown: false,
  };
}

/** Formats a time in UTC, with its date unless it is within the next twelve hours. */
function formatTime(timeMs: number): string {
  const iso = new Date(timeMs).toISOString();
  const isNear = Math.abs(timeMs - Date.now()) < 12 * 3_600_000;
  return `${isNear ? '' : `${iso.slice(0, 10)} `}${iso.slice(11, 16)} UTC`;
}
