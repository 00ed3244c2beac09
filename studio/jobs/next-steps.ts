/** Suggests what an operator can do about a job now. */
import { errorTable } from '../../domain/errors.ts';
import { keysOf } from '../../domain/json.ts';
import type { JobEvidence } from './job-explanation.ts';

/**
 * CLI commands (`studio admin …`) that help with a job, keyed by their `operationId` in the
 * operators' API.
 */
const cliCommands = {
  reverifyJob: 'reverify',
  resettleJob: 'resettle',
  cancelJob: 'cancel',
  redeliverJobWebhook: 'redeliver-webhook',
  resumeProvider: 'resume',
} as const;
/** Operation ids of all commands in `cliCommands`. */
export const remedyOperations = keysOf(cliCommands);
type RemedyOperation = keyof typeof cliCommands;

/** Possible next step of an operator. */
export interface NextStep {
  /** `operationId` of the step in the operators' API. Null if the step is not an API operation. */
  operation: RemedyOperation | null;
  /** Arguments for `npm run studio --` that perform the step. Null if there is no such command. */
  command: string | null;
  message: string;
}

/** Error codes of jobs that were released although the provider may have delivered a result. */
const uncertainOutcomes = new Set<string>(['OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'JOB_LOST']);

/**
 * Lists the possible next steps, most useful first. If the job needs none, returns one step with a
 * message that says so.
 */
export function suggestNextSteps(evidence: JobEvidence): NextStep[] {
  const { job } = evidence;
  const steps = job.status === 'open' ? suggestForOpenJob(evidence) : suggestForEndedJob(evidence);
  if (steps.length > 0) return steps;
  const error = job.error && errorTable[job.error.code];
  if (!error) return [suggestAdvice('Nothing to do: the job is settled.')];
  return [
    suggestAdvice(
      error.retryable
        ? 'Nothing to do: the job is settled. The caller may send the request again.'
        : 'Nothing to do: the job is settled. The same request would fail again.',
    ),
  ];
}

const suggestAdvice = (message: string): NextStep => ({ operation: null, command: null, message });

function suggestOperation(operation: RemedyOperation, targetId: string, message: string): NextStep {
  return { operation, command: `admin ${cliCommands[operation]} ${targetId}`, message };
}

function suggestForOpenJob({ job, owner, calls }: JobEvidence): NextStep[] {
  if (owner === null) return [suggestAdvice('Restore Temporal: docs/runbooks/temporal-lost.md.')];
  if (owner.state !== 'running') {
    const message =
      'The workflow of the job no longer exists. Check the call with the provider, then continue or release the job. The sweeper does this within minutes.';
    return [suggestOperation('resettleJob', job.id, message)];
  }
  const pausedCall = calls.find(({ state }) => state === 'waiting');
  const hasSentCall = calls.some(({ state }) => state === 'accepted' || state === 'unknown');
  const deadline = new Date(job.deadline_at).toISOString();
  return [
    ...(pausedCall
      ? [suggestOperation('resumeProvider', pausedCall.provider, 'Resume the provider.')]
      : []),
    ...(hasSentCall
      ? [suggestOperation('reverifyJob', job.id, 'Check the status with the provider now.')]
      : []),
    suggestAdvice(`Or wait: the job ends on its own, shortly after ${deadline} at the latest.`),
    suggestOperation(
      'cancelJob',
      job.id,
      'Or cancel the job; whether it is canceled is then up to the provider.',
    ),
  ];
}

function suggestForEndedJob({ job, calls, webhook }: JobEvidence): NextStep[] {
  const isUncertain = uncertainOutcomes.has(job.error?.code ?? '') && calls.length > 0;
  const isUndelivered = webhook?.state === 'failed' || webhook?.state === 'gone';
  return [
    ...(isUncertain
      ? [
          suggestOperation(
            'reverifyJob',
            job.id,
            'Check the call with the provider. The check changes no credits.',
          ),
        ]
      : []),
    ...(isUndelivered
      ? [
          suggestOperation(
            'redeliverJobWebhook',
            job.id,
            'Deliver its webhook again when the receiver is available.',
          ),
        ]
      : []),
  ];
}
