/**
 * Describes the progress of a job, the reason of its failure and its cost in sentences for people. The
 * timeline shows them to callers, and the explanation of a job to operators.
 */
import { formatCredits } from '../../domain/credits.ts';
import { errorTable } from '../../domain/errors.ts';
import { providerDefinitions } from '../../providers/provider-registry.ts';
import { finishStep } from '../pipelines/pipeline-requests.ts';
import type { JobCall, JobRecord } from './job-reads.ts';

/** Time after which a submit that a provider should confirm at once counts as unconfirmed. */
const confirmationMs = 5000;

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
        why: `Canceled. Nothing was charged; ${reserved} were released.`,
        outcomeUnknown: false,
      };
    case 'failed': {
      const message = job.error?.message.replace(/\.$/, '') ?? 'The job failed';
      const sentence = message.charAt(0).toUpperCase() + message.slice(1);
      const advice =
        job.error && errorTable[job.error.code].retryable
          ? 'The same request may succeed later.'
          : 'The same request would fail again.';
      const why = `${sentence}. Nothing was charged; ${reserved} were released. ${advice}`;
      return { why, outcomeUnknown: false };
    }
    default:
      return job.status satisfies never;
  }
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

/** Describes the call that holds up an open job the most. */
function describeOpenJob(job: StatementJob, calls: readonly JobCall[]): JobStatement {
  const decidedBy = `Decided by ${formatTime(job.deadlineAtMs)}`;
  const isUnconfirmed = (call: JobCall): boolean =>
    call.state === 'unknown' ||
    (call.state === 'accepted' && job.verifying) ||
    (call.state === 'begun' &&
      providerDefinitions.get(call.provider)?.traits.notifies === true &&
      Date.now() - findSentMs(call) > confirmationMs);
  const unconfirmed = calls.find(isUnconfirmed);
  if (unconfirmed) {
    const { provider, state, step } = unconfirmed;
    const report =
      state === 'accepted' ? 'has not reported the result' : 'has not confirmed the call';
    const verb = step === null ? report : `${report} of the step ${step}`;
    const why = `${provider} ${verb}. It is not sent again. ${decidedBy}; nothing is charged unless ${provider} delivers.`;
    return { why, outcomeUnknown: true };
  }
  return {
    why: `${describeProgress(calls)} ${formatCredits(job.reserved)} are reserved; only what is delivered is charged.`,
    outcomeUnknown: false,
  };
}

/** Returns the time of the latest submit of a call. */
const findSentMs = ({ begunAtMs, unacceptedSubmits }: JobCall): number =>
  Math.max(begunAtMs, unacceptedSubmits.at(-1)?.failedAtMs ?? 0);

function describeProgress(calls: readonly JobCall[]): string {
  const find = (state: JobCall['state']) => calls.find((call) => call.state === state);
  const waiting = find('waiting');
  if (waiting) return `The ${nameCall(waiting)} waits until ${waiting.provider} is resumed.`;
  const rejected = find('not_accepted');
  if (rejected) {
    const count = rejected.attempts === 1 ? 'once' : `${rejected.attempts} times`;
    return `${rejected.provider} did not accept the ${nameCall(rejected)} ${count}; it is sent again.`;
  }
  const running = find('accepted') ?? find('begun');
  if (running) {
    const subject = running.step === null ? 'it' : `the step ${running.step}`;
    return `${running.provider} is working on ${subject}.`;
  }
  return calls.length === 0 ? 'The job is about to be sent.' : 'The result is being stored.';
}

const nameCall = ({ step }: JobCall): string => (step === null ? 'call' : `step ${step}`);

/** Formats a time in UTC, with its date unless it is within the next twelve hours. */
function formatTime(timeMs: number): string {
  const iso = new Date(timeMs).toISOString();
  const isNear = Math.abs(timeMs - Date.now()) < 12 * 3_600_000;
  return `${isNear ? '' : `${iso.slice(0, 10)} `}${iso.slice(11, 16)} UTC`;
}

/** Formats a duration for sentences, such as `3.2 s`, `5 min` or `2 h`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
