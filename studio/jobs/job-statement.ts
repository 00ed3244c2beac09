/**
 * Describes the progress of a job, the reason of its failure and its cost in sentences for people. The
 * timeline shows them to callers, and the explanation of a job to operators.
 */
import { formatCredits } from '../../domain/credits.ts';
import { errorTable } from '../../domain/errors.ts';
import { providerDefinitions } from '../../providers/provider-registry.ts';
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
  'status' | 'reserved' | 'charged' | 'refunded' | 'error' | 'deadlineAtMs' | 'verifying'
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
      const why = `The result was delivered, and ${formatCredits(charged)} were charged.${rest}${refund}`;
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
    const { provider, state } = unconfirmed;
    const verb =
      state === 'accepted' ? 'has not reported the result' : 'has not confirmed the call';
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
  if (waiting) return `The call waits until ${waiting.provider} is resumed.`;
  const rejected = find('not_accepted');
  if (rejected) {
    const count = rejected.attempts === 1 ? 'once' : `${rejected.attempts} times`;
    return `${rejected.provider} did not accept the call ${count}; it is sent again.`;
  }
  const running = find('accepted') ?? find('begun');
  if (running) return `${running.provider} is working on it.`;
  return calls.length === 0 ? 'The job is about to be sent.' : 'The result is being stored.';
}

/** Formats a time in UTC, with its date unless it is within the next twelve hours. */
function formatTime(timeMs: number): string {
  const iso = new Date(timeMs).toISOString();
  const isNear = Math.abs(timeMs - Date.now()) < 12 * 3_600_000;
  return `${isNear ? '' : `${iso.slice(0, 10)} `}${iso.slice(11, 16)} UTC`;
}
