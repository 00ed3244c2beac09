/** Explains the state of a job to operators in one sentence, with the reason for the state. */
import type { JobWorkflow } from './job-workflow.ts';
import type { JobCall } from './job-calls.ts';
import type { JobCaller, JobRecord } from './job-reads.ts';
import type { WebhookAttempt, WebhookRecord } from '../../webhooks/webhooks.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import type { ActionRecord } from '../../identity/operator-actions.ts';

/** Data from which the explanation of a job is built. */
export interface JobEvidence {
  job: JobRecord;
  caller: JobCaller;
  calls: readonly JobCall[];
  /** Reasons why the job is open. Empty if the job has ended. */
  reasons: readonly string[];
  /** Workflow of the job. Null if Temporal is not available. */
  owner: JobWorkflow | null;
  webhook: WebhookRecord | null;
  /** Delivery attempts of the job's webhook, newest first. */
  attempts: readonly WebhookAttempt[];
  /** Operator actions on the job, newest first. */
  actions: readonly ActionRecord[];
}

/** Describes the state of a job and its credits in one sentence, with the reason. */
export function explainJob(evidence: JobEvidence): string {
  const { job, caller } = evidence;
  const reserved = formatCredits(job.reserved);
  const pauseMs = calculatePauseMs(evidence.calls);
  const duration =
    job.completed_at === null ? null : formatDuration(job.completed_at - job.created_at - pauseMs);
  switch (job.status) {
    case 'open': {
      const age = formatDuration(Date.now() - job.created_at);
      return `Open for ${age}, with ${reserved} of ${caller.organizationName} reserved. Reasons: ${evidence.reasons.join('; ')}.`;
    }
    case 'completed': {
      const charged = job.charged ?? 0;
      const reservedNote = charged === job.reserved ? '' : ` of ${reserved} reserved`;
      const count = (job.outputs ?? []).flatMap(({ artifacts }) => artifacts).length;
      const files = count === 1 ? '1 file' : `${count} files`;
      return `Charged ${formatCredits(charged)}${reservedNote} to ${caller.organizationName}: ${listProviders(evidence)} delivered ${files} of ${job.model ?? job.type} in ${duration}${describePausesAndFailures(evidence)}${describeWebhook(evidence)}${describeRefund(evidence)}.`;
    }
    case 'canceled': {
      const cancelRequest = evidence.actions.find(
        ({ action }) => action === 'job.cancel_requested',
      );
      const actorNote = cancelRequest
        ? `by ${cancelRequest.actor} (${cancelRequest.reason}), `
        : '';
      return `Canceled ${actorNote}after ${duration} and released ${reserved}: ${describeError(evidence)}${describePausesAndFailures(evidence)}${describeWebhook(evidence)}.`;
    }
    case 'failed':
      return `Failed after ${duration} and released ${reserved}: ${describeError(evidence)}${describePausesAndFailures(evidence)}${describeWebhook(evidence)}.`;
    default:
      return job.status satisfies never;
  }
}

const formatCredits = (micro: number): string => `${creditsFromMicro(micro)} credits`;

function formatDuration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

/**
 * Returns the longest time that a call of the job waited for a paused provider before it was sent,
 * in milliseconds.
 */
function calculatePauseMs(calls: readonly JobCall[]): number {
  const pauses = calls.map(({ state, pausedAtMs, begunAtMs }) =>
    pausedAtMs === null || state === 'waiting' ? 0 : begunAtMs - pausedAtMs,
  );
  return Math.max(0, ...pauses);
}

/**
 * Describes how long a job waited for paused providers, and the attempts that each provider did not
 * accept.
 */
function describePausesAndFailures({ calls }: JobEvidence): string {
  const pauseMs = calculatePauseMs(calls);
  const pause =
    pauseMs > 0 ? [`before that, it waited ${formatDuration(pauseMs)} for a paused provider`] : [];
  const byProvider = Map.groupBy(
    calls.flatMap(({ unacceptedSubmits }) => unacceptedSubmits),
    ({ provider }) => provider,
  );
  const failures = [...byProvider].map(([provider, submits]) => {
    const attempts =
      submits.length === 1 ? '1 attempt (' : `${submits.length} attempts (last error: `;
    return `${provider} did not accept ${attempts}${submits.at(-1)?.message})`;
  });
  return [...pause, ...failures].map((part) => `; ${part}`).join('');
}

function listProviders({ calls, job }: JobEvidence): string {
  const names = calls.map(({ provider }) => provider);
  return [...new Set(names.length === 0 ? [job.provider] : names)].join(' and ');
}

function describeError(evidence: JobEvidence): string {
  const { error } = evidence.job;
  const ids = evidence.calls.flatMap(({ providerRequestId: id }) => (id === null ? [] : [id]));
  const requestIdNote = ids[0] === undefined ? '' : `; request id ${ids[0]}`;
  const callNote =
    evidence.calls.length === 0
      ? 'no provider was called'
      : `${listProviders(evidence)} was called${requestIdNote}`;
  return `${error?.code}, ${(error?.message ?? '').replace(/\.$/, '')} (${callNote})`;
}

function describeWebhook({ webhook, attempts }: JobEvidence): string {
  if (!webhook || webhook.state === 'delivered' || attempts.length === 0) return '';
  const [last] = attempts;
  const response = last?.status ?? last?.error ?? 'no response yet';
  const state = webhook.state === 'delivering' ? 'is still being delivered' : 'was not delivered';
  return `; its webhook ${state} (${webhook.attempts} attempts; last response: ${response})`;
}

/** Describes the refunds of a job, with the operator of the latest refund. */
function describeRefund({ job, actions }: JobEvidence): string {
  if (job.refunded === 0) return '';
  const action = actions.find(({ action: name }) => name === 'job.refunded');
  const actorNote = action ? ` by ${action.actor} (${action.reason})` : '';
  return `; ${formatCredits(job.refunded)} refunded${actorNote}`;
}
