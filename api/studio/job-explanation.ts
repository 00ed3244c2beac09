/** Explanation of a job for operators: one sentence on its state and the reason. */
import type { JobWorkflow } from '../../jobs/records/job-owner.ts';
import type { JobCall } from '../../jobs/records/job-calls.ts';
import type { JobCaller, JobRecord } from '../../jobs/records/job-reads.ts';
import type { WebhookAttempt, WebhookRecord } from '../../webhooks/webhooks.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
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
      const cancel = facts.actions.find(({ action }) => action === 'job.cancel_requested');
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
