/**
 * Explanation of a job for operators: one sentence on its state, and the actions that are possible
 * now.
 */
import type { JobWorkflow } from '../../jobs/records/job-owner.ts';
import type { JobCall } from '../../jobs/records/job-calls.ts';
import type { JobCaller, JobRecord } from '../../jobs/records/job-reads.ts';
import type { WebhookAttempt, WebhookRecord } from '../../webhooks/webhooks.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { errorTable } from '../../domain/errors.ts';
import { keysOf } from '../../domain/json.ts';
import type { RecordedAction } from '../identity/admin-actions.ts';

/** Records of a job that its explanation is written from. */
export interface JobFacts {
  job: JobRecord;
  caller: JobCaller;
  calls: readonly JobCall[];
  /** Reasons why the job is open; empty if it has ended. */
  reasons: readonly string[];
  /** Workflow of the job; null: Temporal is not available. */
  owner: JobWorkflow | null;
  webhook: WebhookRecord | null;
  /** Attempts of the webhook, newest first. */
  attempts: readonly WebhookAttempt[];
  /** Actions of operators on the job, newest first. */
  actions: readonly RecordedAction[];
}

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

/** Describes in one sentence the state of a job and of its credits, and the reason. */
export function whyOf(facts: JobFacts): string {
  const { job, caller } = facts;
  const reserved = credits(job.reserved);
  const pauseMs = pauseOf(facts.calls);
  const duration =
    job.completed_at === null ? null : spanOf(job.completed_at - job.created_at - pauseMs);
  switch (job.status) {
    case 'open': {
      const age = spanOf(Date.now() - job.created_at);
      return `Open for ${age}, ${reserved} of ${caller.organizationName} reserved: ${facts.reasons.join('; ')}.`;
    }
    case 'completed': {
      const charged = job.charged ?? 0;
      const of = charged === job.reserved ? '' : ` of ${reserved} reserved`;
      const count = (job.outputs ?? []).flatMap(({ artifacts }) => artifacts).length;
      const files = count === 1 ? '1 file' : `${count} files`;
      return `Charged ${credits(charged)}${of} to ${caller.organizationName}: ${sendersOf(facts)} delivered ${files} of ${job.model ?? job.type} in ${duration}${detoursOf(facts)}${webhookText(facts)}${refundText(facts)}.`;
    }
    case 'canceled': {
      const cancel = facts.actions.find(({ action }) => action === 'job.cancel_asked');
      const by = cancel ? `by ${cancel.actor} (${cancel.reason}), ` : '';
      return `Canceled ${by}after ${duration} and released ${reserved}: ${problemOf(facts)}${detoursOf(facts)}${webhookText(facts)}.`;
    }
    case 'failed':
      return `Failed after ${duration} and released ${reserved}: ${problemOf(facts)}${detoursOf(facts)}${webhookText(facts)}.`;
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

/**
 * Returns the longest time in milliseconds that a call waited for a paused provider before it was
 * sent.
 */
function pauseOf(calls: readonly JobCall[]): number {
  const pauses = calls.map(({ state, pausedAtMs, begunAtMs }) =>
    pausedAtMs === null || state === 'waiting' ? 0 : begunAtMs - pausedAtMs,
  );
  return Math.max(0, ...pauses);
}

/** Describes the pause that a job waited for, and the attempts that each provider refused. */
function detoursOf({ calls }: JobFacts): string {
  const pauseMs = pauseOf(calls);
  const pause =
    pauseMs > 0 ? [`before that, it waited ${spanOf(pauseMs)} for a paused provider`] : [];
  const byProvider = Map.groupBy(
    calls.flatMap(({ refusals }) => refusals),
    ({ provider }) => provider,
  );
  const refusals = [...byProvider].map(([provider, all]) => {
    const attempts = all.length === 1 ? '1 attempt (' : `${all.length} attempts (the last: `;
    return `${provider} refused ${attempts}${all.at(-1)?.message})`;
  });
  return [...pause, ...refusals].map((part) => `; ${part}`).join('');
}

function sendersOf({ calls, job }: JobFacts): string {
  const names = calls.map(({ provider }) => provider);
  return [...new Set(names.length === 0 ? [job.provider] : names)].join(' and ');
}

function problemOf(facts: JobFacts): string {
  const { error } = facts.job;
  const ids = facts.calls.flatMap(({ providerRequestId: id }) => (id === null ? [] : [id]));
  const first = ids[0] === undefined ? '' : `, its request ${ids[0]}`;
  const callNote =
    facts.calls.length === 0 ? 'no provider was called' : `${sendersOf(facts)} was called${first}`;
  return `${error?.code}, ${(error?.message ?? '').replace(/\.$/, '')} (${callNote})`;
}

function webhookText({ webhook, attempts }: JobFacts): string {
  if (!webhook || webhook.state === 'delivered' || attempts.length === 0) return '';
  const last = attempts[0];
  const response = last?.status ?? last?.error ?? 'no response yet';
  const state = webhook.state === 'delivering' ? 'is still being delivered' : 'was not delivered';
  return `; its webhook ${state} (${webhook.attempts} attempts, the last: ${response})`;
}

/** Describes the refund of a job, with the operator who made the last one. */
function refundText({ job, actions }: JobFacts): string {
  if (job.refunded === 0) return '';
  const action = actions.find((each) => each.action === 'job.refunded');
  const by = action ? ` by ${action.actor} (${action.reason})` : '';
  return `; ${credits(job.refunded)} refunded${by}`;
}

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
