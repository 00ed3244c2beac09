/** Explanation of a job for operators: one sentence about its state, and the available actions. */
import type { JobWorkflow } from '../../jobs/records/job-owner.ts';
import type { JobCall, JobCaller, JobRecord } from '../../jobs/records/job-reads.ts';
import type { WebhookAttempt, WebhookRecord } from '../../webhooks/webhooks.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { errorTable } from '../../domain/errors.ts';
import { keysOf } from '../../domain/json.ts';
import type { RecordedAction } from '../identity/operators.ts';

/** Facts about a job. */
export interface JobFacts {
  job: JobRecord;
  caller: JobCaller;
  calls: readonly JobCall[];
  /** Reasons for which the job is still open; empty if it has ended. */
  reasons: readonly string[];
  /** Null if Temporal could not be reached. */
  owner: JobWorkflow | null;
  webhook: WebhookRecord | null;
  /** Newest first. */
  attempts: readonly WebhookAttempt[];
  /** Actions of operators on the job, newest first. */
  actions: readonly RecordedAction[];
}

/**
 * Endpoints of the operators' API that continue or end a job, by operation id, with their CLI
 * commands.
 */
const commands = {
  reverifyJob: 'reverify',
  resettleJob: 'resettle',
  cancelJob: 'cancel',
  redeliverJobWebhook: 'redeliver-webhook',
  resumeProvider: 'resume',
} as const;
/** Operation ids of these endpoints. */
export const remedies = keysOf(commands);
type Remedy = keyof typeof commands;

/** An available action. */
export interface NextStep {
  /** Operation id; null if the action is outside of this API. */
  operation: Remedy | null;
  /** Arguments of `npm run studio --`; null if there is no command. */
  command: string | null;
  words: string;
}

/** Error codes of jobs that were released although the provider may have delivered. */
const withoutVerdict = new Set<string>(['OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'JOB_LOST']);

/** Describes in one sentence what happened to the credits, and why. */
export function whyOf(facts: JobFacts): string {
  const { job, caller } = facts;
  const reserved = credits(job.reserved);
  const taken = job.completed_at === null ? null : spanOf(job.completed_at - job.created_at);
  switch (job.status) {
    case 'queued': {
      const age = spanOf(Date.now() - job.created_at);
      return `Open for ${age}, ${reserved} of ${caller.organizationName} reserved: ${facts.reasons.join('; ')}.`;
    }
    case 'completed': {
      const charged = job.charged ?? 0;
      const of = charged === job.reserved ? '' : ` of ${reserved} reserved`;
      const made = (job.outputs ?? []).flatMap(({ artifacts }) => artifacts).length;
      const files = made === 1 ? '1 file' : `${made} files`;
      return `Charged ${credits(charged)}${of} to ${caller.organizationName}: ${sendersOf(facts)} delivered ${files} of ${job.model ?? job.type} in ${taken}${webhookWords(facts)}.`;
    }
    case 'canceled': {
      const asked = facts.actions.find(({ action }) => action === 'job.cancel_asked');
      const by = asked ? `by ${asked.actor} (${asked.reason}), ` : '';
      return `Canceled ${by}after ${taken} and released ${reserved}: ${problemOf(facts)}${webhookWords(facts)}.`;
    }
    case 'failed':
      return `Failed after ${taken} and released ${reserved}: ${problemOf(facts)}${webhookWords(facts)}.`;
    default:
      return job.status satisfies never;
  }
}

const credits = (micro: number): string => `${creditsFromMicro(micro)} credits`;

function spanOf(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

function sendersOf({ calls, job }: JobFacts): string {
  const names = calls.map(({ provider }) => provider);
  return [...new Set(names.length === 0 ? [job.provider] : names)].join(' and ');
}

function problemOf(facts: JobFacts): string {
  const { error } = facts.job;
  const ids = facts.calls.flatMap(({ providerRequestId: id }) => (id === null ? [] : [id]));
  const first = ids[0] === undefined ? '' : `, its request ${ids[0]}`;
  const asked =
    facts.calls.length === 0 ? 'no provider was called' : `${sendersOf(facts)} was called${first}`;
  return `${error?.code}, ${(error?.message ?? '').replace(/\.$/, '')} (${asked})`;
}

function webhookWords({ webhook, attempts }: JobFacts): string {
  if (!webhook || webhook.state === 'delivered' || attempts.length === 0) return '';
  const last = attempts[0];
  const answer = last?.status ?? last?.error ?? 'no answer yet';
  const more = webhook.state === 'delivering' ? 'is still being delivered' : 'was not delivered';
  return `; its webhook ${more} (${webhook.attempts} attempts, the last: ${answer})`;
}

/**
 * Lists the available actions, the most promising first; a job that needs none has one entry that
 * says so.
 */
export function nextStepsOf(facts: JobFacts): NextStep[] {
  const { job } = facts;
  const steps = job.status === 'queued' ? openSteps(facts) : endedSteps(facts);
  if (steps.length > 0) return steps;
  const error = job.error && errorTable[job.error.code];
  if (!error) return [advice('Nothing: it is settled.')];
  return [
    advice(
      error.retryable
        ? 'Nothing: it is settled. The caller may send the request again.'
        : 'Nothing: it is settled. The same request would end the same way.',
    ),
  ];
}

const advice = (words: string): NextStep => ({ operation: null, command: null, words });

function remedy(operation: Remedy, subject: string, words: string): NextStep {
  return { operation, command: `admin ${commands[operation]} ${subject}`, words };
}

function openSteps({ job, owner, calls }: JobFacts): NextStep[] {
  if (owner === null) return [advice('Bring Temporal back: docs/runbooks/temporal-lost.md.')];
  if (owner.state !== 'running') {
    const words =
      'Its workflow no longer exists: check with the provider, then continue the job or release it. The sweeper does this within minutes.';
    return [remedy('resettleJob', job.id, words)];
  }
  const paused = calls.find(({ state }) => state === 'waiting');
  const sent = calls.some(({ state }) => state === 'accepted' || state === 'unknown');
  const deadline = new Date(job.deadline_at).toISOString();
  return [
    ...(paused ? [remedy('resumeProvider', paused.provider, 'Resume the provider.')] : []),
    ...(sent ? [remedy('reverifyJob', job.id, 'Ask the provider now.')] : []),
    advice(`Or wait: it ends by itself, at the latest soon after ${deadline}.`),
    remedy('cancelJob', job.id, 'Or cancel it: the provider’s response then decides.'),
  ];
}

function endedSteps({ job, calls, webhook }: JobFacts): NextStep[] {
  const inDoubt = withoutVerdict.has(job.error?.code ?? '') && calls.length > 0;
  const undelivered = webhook?.state === 'failed' || webhook?.state === 'gone';
  return [
    ...(inDoubt
      ? [remedy('reverifyJob', job.id, 'Check the call with the provider; moves no credits.')]
      : []),
    ...(undelivered
      ? [remedy('redeliverJobWebhook', job.id, 'Deliver its webhook, once the receiver answers.')]
      : []),
  ];
}
