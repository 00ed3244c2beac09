/** Next steps of an operator for a job: the actions that are possible now. */
import { errorTable } from '../../domain/errors.ts';
import { keysOf } from '../../domain/json.ts';
import type { JobFacts } from './job-explanation.ts';

/**
 * Commands of the CLI (`studio admin …`) that help with a job, by their operation ids in the
 * operators' API.
 */
const commands = {
  reverifyJob: 'reverify',
  resettleJob: 'resettle',
  cancelJob: 'cancel',
  redeliverJobWebhook: 'redeliver-webhook',
  resumeProvider: 'resume',
} as const;
/** Operation ids of `commands`. */
export const remedies = keysOf(commands);
type Remedy = keyof typeof commands;

/** Possible next step of an operator. */
export interface NextStep {
  /** Operation of the operators' API; null: the step is not an operation of the API. */
  operation: Remedy | null;
  /** Arguments of `npm run studio --`; null if there is no command. */
  command: string | null;
  message: string;
}

/** Error codes of jobs that were released although the provider may have delivered a result. */
const withoutVerdict = new Set<string>(['OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'JOB_LOST']);

/**
 * Lists the possible next steps, the most useful first; if the job needs none, one step says so.
 */
export function nextStepsOf(facts: JobFacts): NextStep[] {
  const { job } = facts;
  const steps = job.status === 'open' ? openSteps(facts) : endedSteps(facts);
  if (steps.length > 0) return steps;
  const error = job.error && errorTable[job.error.code];
  if (!error) return [advice('Nothing: it is settled.')];
  return [
    advice(
      error.retryable
        ? 'Nothing: it is settled. The caller may send the request again.'
        : 'Nothing: it is settled. The same request would fail again.',
    ),
  ];
}

const advice = (message: string): NextStep => ({ operation: null, command: null, message });

function remedy(operation: Remedy, subject: string, message: string): NextStep {
  return { operation, command: `admin ${commands[operation]} ${subject}`, message };
}

function openSteps({ job, owner, calls }: JobFacts): NextStep[] {
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
    advice(`Or wait: the job ends by itself, at the latest soon after ${deadline}.`),
    remedy('cancelJob', job.id, 'Or cancel the job: the response of the provider then decides.'),
  ];
}

function endedSteps({ job, calls, webhook }: JobFacts): NextStep[] {
  const inDoubt = withoutVerdict.has(job.error?.code ?? '') && calls.length > 0;
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
