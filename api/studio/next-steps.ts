/** Suggests what an operator can do about a job now. */
import { errorTable } from '../../domain/errors.ts';
import { keysOf } from '../../domain/json.ts';
import type { JobEvidence } from './job-explanation.ts';

/**
 * CLI commands (`studio admin …`) that help with a job, keyed by their `operationId` in the
 * operators' API.
 */
const commands = {
  reverifyJob: 'reverify',
  resettleJob: 'resettle',
  cancelJob: 'cancel',
  redeliverJobWebhook: 'redeliver-webhook',
  resumeProvider: 'resume',
} as const;
/** Each `operationId` of `commands`. */
export const remedies = keysOf(commands);
type Remedy = keyof typeof commands;

/** Possible next step of an operator. */
export interface NextStep {
  /** `operationId` of the operators' API; null if the step is not an API operation. */
  operation: Remedy | null;
  /** Arguments of `npm run studio --`; null if there is no command. */
  command: string | null;
  message: string;
}

/** Error codes of released jobs for which the provider may nevertheless have delivered a result. */
const uncertainOutcomes = new Set<string>(['OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'JOB_LOST']);

/**
 * Lists the possible next steps, most useful first. If the job needs none, returns a single step
 * that says so.
 */
export function suggestNextSteps(facts: JobEvidence): NextStep[] {
  const { job } = facts;
  const steps = job.status === 'open' ? openSteps(facts) : endedSteps(facts);
  if (steps.length > 0) return steps;
  const error = job.error && errorTable[job.error.code];
  if (!error) return [advice('Nothing to do: the job is settled.')];
  return [
    advice(
      error.retryable
        ? 'Nothing to do: the job is settled. The caller may send the request again.'
        : 'Nothing to do: the job is settled. The same request would fail again.',
    ),
  ];
}

const advice = (message: string): NextStep => ({ operation: null, command: null, message });

function remedy(operation: Remedy, subject: string, message: string): NextStep {
  return { operation, command: `admin ${commands[operation]} ${subject}`, message };
}

function openSteps({ job, owner, calls }: JobEvidence): NextStep[] {
  if (owner === null) return [advice('Restore Temporal: docs/runbooks/temporal-lost.md.')];
  if (owner.state !== 'running') {
    const message =
      'Its workflow no longer exists: check with the provider, then continue the job or release it. The sweeper does this within minutes.';
    return [remedy('resettleJob', job.id, message)];
  }
  const paused = calls.find(({ state }) => state === 'waiting');
  const sent = calls.some(({ state }) => state === 'accepted' || state === 'unknown');
  const deadline = new Date(job.deadline_at).toISOString();
  return [
    ...(paused ? [remedy('resumeProvider', paused.provider, 'Resume the provider.')] : []),
    ...(sent ? [remedy('reverifyJob', job.id, 'Check the status with the provider now.')] : []),
    advice(`Or wait: the job ends on its own, shortly after ${deadline} at the latest.`),
    remedy(
      'cancelJob',
      job.id,
      'Or cancel the job; whether it is canceled is then up to the provider.',
    ),
  ];
}

function endedSteps({ job, calls, webhook }: JobEvidence): NextStep[] {
  const inDoubt = uncertainOutcomes.has(job.error?.code ?? '') && calls.length > 0;
  const undelivered = webhook?.state === 'failed' || webhook?.state === 'gone';
  return [
    ...(inDoubt
      ? [remedy('reverifyJob', job.id, 'Check the call with the provider; this moves no credits.')]
      : []),
    ...(undelivered
      ? [
          remedy(
            'redeliverJobWebhook',
            job.id,
            'Deliver its webhook again when the receiver is available.',
          ),
        ]
      : []),
  ];
}
