/** Explains the state of a job to operators in one sentence, with the reason for the state. */
import { errorTable } from '../../domain/errors.ts';
import { keysOf, toResponse } from '../../domain/json.ts';
import { z } from 'zod';
import { finishStep } from '../pipelines/pipeline-requests.ts';
import { pipelineStepId } from '../../domain/job-record.ts';
import { formatDuration } from '../../domain/durations.ts';
import type { JobCall } from './job-calls.ts';
import type { JobRecord, JobCaller } from './job-reads.ts';
import { describeOutputs, describeSettlement } from './job-statement.ts';
import type { WebhookRecord, WebhookAttempt } from '../../webhooks/webhooks.ts';
import type { WorkflowState } from '../../executions/workflow-state.ts';
import { formatCredits } from '../../domain/credits.ts';
import type { ActionRecord } from '../../identity/operators.ts';

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

function suggestForOpenJob({ job, workflow, calls }: JobEvidence): NextStep[] {
  if (workflow === null)
    return [suggestAdvice('Restore Temporal: docs/runbooks/temporal-lost.md.')];
  if (workflow.state !== 'running') {
    const message =
      'The workflow of the job no longer exists. Check the call with the provider, then continue or release the job. The sweeper does this within minutes.';
    return [suggestOperation('resettleJob', job.id, message)];
  }
  if (workflow.failingTask) {
    return [
      suggestAdvice(
        `Its workflow cannot continue. The sweeper resets it once. If its task still fails, run a build that can continue it, or: temporal workflow reset --workflow-id ${job.id} --type FirstWorkflowTask --reason "…" (docs/runbooks/replay-failure.md). No call is sent twice.`,
      ),
    ];
  }
  const pausedCall = calls.find(({ state }) => state === 'waiting');
  const hasSentCall = calls.some(({ state }) => state === 'accepted' || state === 'unknown');
  const deadline = new Date(job.deadlineAtMs).toISOString();
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
  const isUncertain = job.unknownOutcome !== null && calls.length > 0;
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

const time = z.iso.datetime();

/** Schema of a step. */
export const stepSchema = z
  .object({
    name: z.enum(['reserve', 'pause', 'submit', 'wait', 'store', 'charge', 'release', 'webhook']),
    step: pipelineStepId,
    state: z.enum(['waiting', 'running', 'done', 'failed']),
    call: z.int().nullable().meta({
      description: 'Zero-based index of the provider call; null for a step of the whole job.',
    }),
    provider: z.string().nullable(),
    providerRequestId: z.string().nullable(),
    attempts: z.int().nullable().meta({ description: 'Number of attempts; null if unknown.' }),
    startedAt: time.nullable(),
    endedAt: time.nullable(),
  })
  .meta({ id: 'JobStep' });

type ShownStep = z.infer<typeof stepSchema>;
type Step = Omit<ShownStep, 'startedAt' | 'endedAt'> & {
  startedAtMs: number | null;
  endedAtMs: number | null;
};

const noCallFields = {
  step: null,
  call: null,
  provider: null,
  providerRequestId: null,
  attempts: null,
};

/** Lists the steps of a job. */
export function listSteps(
  job: JobRecord,
  calls: readonly JobCall[],
  webhook: WebhookRecord | null,
): ShownStep[] {
  const reservedAt = { startedAtMs: job.createdAtMs, endedAtMs: job.createdAtMs };
  const listed = markFailure(job.status === 'failed', [
    ...calls.flatMap((call) => listCallSteps(job, call)),
    ...buildStoreStep(job, calls),
  ]);
  const steps: Step[] = [
    { ...noCallFields, name: 'reserve', state: 'done', ...reservedAt },
    ...(job.steps ? calls.flatMap((call) => listStepsOfPipelineCall(job, call)) : listed),
    ...buildEndStep(job),
    ...(webhook ? [buildWebhookStep(webhook)] : []),
  ];
  return steps.map(toResponse);
}

/** Lists the steps of a call of a pipeline. Each of them stores its own result, or fails on its own. */
function listStepsOfPipelineCall(job: JobRecord, call: JobCall): readonly Step[] {
  const { index, step, provider, notifiedAtMs, answeredAtMs } = call;
  const startedAtMs = notifiedAtMs ?? answeredAtMs;
  const outputs = job.outputs?.find(({ callIndex }) => callIndex === index);
  const isFailed = job.status === 'failed' || Boolean(outputs?.error && outputs.delivered === 0);
  const store: Step = {
    ...noCallFields,
    name: 'store',
    call: index,
    provider,
    state: answeredAtMs === null ? (job.status === 'open' ? 'running' : 'failed') : 'done',
    startedAtMs,
    endedAtMs: answeredAtMs ?? job.completedAtMs,
  };
  // A call that the provider has refused has nothing to store.
  const isRefused = isFailed && answeredAtMs === null && outputs?.error?.code !== 'STORAGE_ERROR';
  const isStored = startedAtMs !== null && !isRefused;
  const steps = [...listCallSteps(job, call), ...(isStored ? [store] : [])];
  return markFailure(isFailed, steps).map((one) => ({ ...one, step }));
}

/**
 * Marks the last of the `submit`, `wait` and `store` steps as failed, unless one of them has failed,
 * because a provider may end a wait by rejecting the call.
 */
function markFailure(isFailed: boolean, steps: readonly Step[]): readonly Step[] {
  const isProviderStep = ({ name }: Step): boolean =>
    name === 'submit' || name === 'wait' || name === 'store';
  if (!isFailed || steps.some((step) => isProviderStep(step) && step.state === 'failed'))
    return steps;
  const lastProviderStep = steps.findLast(isProviderStep);
  return steps.map((step) => (step === lastProviderStep ? { ...step, state: 'failed' } : step));
}

function listCallSteps(job: JobRecord, call: JobCall): Step[] {
  const { index, provider, providerRequestId, attempts, state } = call;
  const { acceptedAtMs, answeredAtMs, notifiedAtMs } = call;
  const callFields = { step: null, call: index, provider, providerRequestId };
  const hasEnded = job.status !== 'open';
  const submittedAtMs = acceptedAtMs ?? answeredAtMs;
  const isAccepted = state === 'accepted' || state === 'answered';
  const earlierSubmits = listEarlierSubmits(call);
  const sentAtMs = earlierSubmits.at(-1)?.endedAtMs ?? call.begunAtMs;
  const submit: Step = {
    ...callFields,
    name: 'submit',
    state: isAccepted ? 'done' : hasEnded ? 'failed' : state === 'waiting' ? 'waiting' : 'running',
    attempts: earlierSubmits.reduce((left, { attempts: failed }) => left - (failed ?? 0), attempts),
    startedAtMs: state === 'waiting' ? null : sentAtMs,
    endedAtMs: submittedAtMs ?? (hasEnded ? job.completedAtMs : null),
  };
  const submitSteps = [...buildPauseStep(call), ...earlierSubmits, submit];
  if (acceptedAtMs === null) return submitSteps;
  const endedAtMs = notifiedAtMs ?? answeredAtMs ?? job.completedAtMs;
  const isLost = hasEnded && job.status !== 'completed' && notifiedAtMs === null;
  const wait: Step = {
    ...callFields,
    name: 'wait',
    state: endedAtMs === null ? 'running' : isLost ? 'failed' : 'done',
    attempts: null,
    startedAtMs: acceptedAtMs,
    endedAtMs,
  };
  return [...submitSteps, wait];
}

/** Returns the step in which a call waited for a paused provider, if it waited. */
function buildPauseStep({ index, provider, state, pausedAtMs, begunAtMs }: JobCall): Step[] {
  if (pausedAtMs === null) return [];
  const isPaused = state === 'waiting';
  return [
    {
      ...noCallFields,
      name: 'pause',
      state: isPaused ? 'running' : 'done',
      call: index,
      provider,
      startedAtMs: pausedAtMs,
      endedAtMs: isPaused ? null : begunAtMs,
    },
  ];
}

/** Returns a failed submit step for each earlier route whose provider did not accept the call. */
function listEarlierSubmits({ index, routeIndex, begunAtMs, unacceptedSubmits }: JobCall): Step[] {
  const onEarlierRoutes = unacceptedSubmits.filter((submit) => submit.routeIndex !== routeIndex);
  let startedAtMs = begunAtMs;
  return [...Map.groupBy(onEarlierRoutes, (submit) => submit.routeIndex).values()].flatMap(
    (all) => {
      const lastSubmit = all.at(-1);
      if (!lastSubmit) return [];
      const { provider, providerRequestId, failedAtMs: endedAtMs } = lastSubmit;
      const step: Step = {
        name: 'submit',
        state: 'failed',
        step: null,
        call: index,
        provider,
        providerRequestId,
        attempts: all.length,
        startedAtMs,
        endedAtMs,
      };
      startedAtMs = endedAtMs;
      return [step];
    },
  );
}

/**
 * Returns the step in which media are downloaded, checked and stored. It lasts from the last
 * provider result to the end of the job.
 */
function buildStoreStep(job: JobRecord, calls: readonly JobCall[]): Step[] {
  const resultTimes = calls
    .map(({ notifiedAtMs, answeredAtMs }) => notifiedAtMs ?? answeredAtMs)
    .filter((timeMs) => timeMs !== null);
  const isComplete = resultTimes.length === calls.length && resultTimes.length > 0;
  if (job.status === 'open' && !isComplete) return [];
  if (job.status !== 'open' && job.status !== 'completed') {
    if (job.error?.code !== 'STORAGE_ERROR') return [];
  }
  const state = job.status === 'open' ? 'running' : job.error ? 'failed' : 'done';
  const startedAtMs = resultTimes.length > 0 ? Math.max(...resultTimes) : null;
  return [{ ...noCallFields, name: 'store', state, startedAtMs, endedAtMs: job.completedAtMs }];
}

function buildEndStep(job: JobRecord): Step[] {
  if (job.status === 'open') return [];
  const name = job.billingState === 'charged' ? 'charge' : 'release';
  const at = { startedAtMs: job.completedAtMs, endedAtMs: job.completedAtMs };
  return [{ ...noCallFields, name, state: 'done', ...at }];
}

function buildWebhookStep({ state, attempts, createdAtMs, updatedAtMs }: WebhookRecord): Step {
  const hasEnded = state === 'delivered' || state === 'gone' || state === 'failed';
  return {
    ...noCallFields,
    name: 'webhook',
    state:
      state === 'delivered'
        ? 'done'
        : hasEnded
          ? 'failed'
          : state === 'waiting'
            ? 'waiting'
            : 'running',
    attempts,
    startedAtMs: state === 'waiting' ? null : createdAtMs,
    endedAtMs: hasEnded ? updatedAtMs : null,
  };
}

/** Data from which the explanation of a job is built. */
export interface JobEvidence {
  job: JobRecord;
  caller: JobCaller;
  calls: readonly JobCall[];
  /** Reasons why the job is open. Empty if the job has ended. */
  reasons: readonly string[];
  /** Workflow of the job. Null if Temporal is not available. */
  workflow: WorkflowState | null;
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
    job.completedAtMs === null
      ? null
      : formatDuration(job.completedAtMs - job.createdAtMs - pauseMs);
  switch (job.status) {
    case 'open': {
      const age = formatDuration(Date.now() - job.createdAtMs);
      return `Open for ${age}, with ${reserved} of ${caller.organizationName} reserved. Reasons: ${evidence.reasons.join('; ')}.`;
    }
    case 'completed': {
      const charged = job.charged ?? 0;
      const reservedNote = charged === job.reserved ? '' : ` of ${reserved} reserved`;
      return `Charged ${formatCredits(charged)}${reservedNote} to ${caller.organizationName}: ${listProviders(evidence)} delivered ${describeOutputs(job)} of ${job.model ?? job.type} in ${duration}${describeFailedSteps(job)}${describePausesAndFailures(evidence)}${describeWebhook(evidence)}${describeRefund(evidence)}.`;
    }
    case 'canceled': {
      const cancelRequest = evidence.actions.find(
        ({ action }) => action === 'job.cancel_requested',
      );
      const actorNote = cancelRequest
        ? `by ${cancelRequest.actor} (${cancelRequest.reason}), `
        : '';
      return `Canceled ${actorNote}after ${duration} and ${describeSettlement(job)}: ${describeError(evidence)}${describePausesAndFailures(evidence)}${describeWebhook(evidence)}.`;
    }
    case 'failed':
      return `Failed after ${duration} and ${describeSettlement(job)}: ${describeError(evidence)}${describePausesAndFailures(evidence)}${describeWebhook(evidence)}.`;
    default:
      return job.status satisfies never;
  }
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

/** Describes the steps of a pipeline that did not deliver, except those that were skipped. */
function describeFailedSteps({ steps, outputs }: JobRecord): string {
  return (steps ?? [])
    .map((step) => finishStep(step, outputs ?? []))
    .filter(({ status }) => status === 'failed')
    .map(({ step, error }) => `; the step ${step.id} failed: ${error?.code}, ${error?.message}`)
    .join('');
}

function listProviders({ calls, job }: JobEvidence): string {
  const names = calls.map(({ provider }) => provider);
  return [...new Set(names.length === 0 ? [job.provider] : names)].join(' and ');
}

function describeError(evidence: JobEvidence): string {
  const { error } = evidence.job;
  const id = evidence.calls.find(({ providerRequestId }) => providerRequestId)?.providerRequestId;
  const requestIdNote = id ? `; request id ${id}` : '';
  const called = `${listProviders(evidence)} was called${requestIdNote}`;
  const callNote = evidence.calls.length === 0 ? 'no provider was called' : called;
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
