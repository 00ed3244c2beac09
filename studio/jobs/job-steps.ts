/**
 * Lists the steps of a job with their times: reserve, submit and wait for each call, store, charge
 * or release, and the webhook. The steps are derived from the job's database rows. Only the
 * workflow history in Temporal contains every attempt.
 */
import { z } from 'zod';
import type { JobCall } from './job-calls.ts';
import type { JobRecord } from './job-reads.ts';
import type { WebhookRecord } from '../../webhooks/webhooks.ts';
import { toResponse } from '../../domain/json.ts';

const time = z.iso.datetime();

/** Schema of a step. */
export const stepSchema = z
  .object({
    name: z.enum(['reserve', 'pause', 'submit', 'wait', 'store', 'charge', 'release', 'webhook']),
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

const noCallFields = { call: null, provider: null, providerRequestId: null, attempts: null };

/** Lists the steps of a job. */
export function listSteps(
  job: JobRecord,
  calls: readonly JobCall[],
  webhook: WebhookRecord | null,
): ShownStep[] {
  const reservedAt = { startedAtMs: job.created_at, endedAtMs: job.created_at };
  const steps: Step[] = [
    { ...noCallFields, name: 'reserve', state: 'done', ...reservedAt },
    ...calls.flatMap((call) => listCallSteps(job, call)),
    ...buildStoreStep(job, calls),
    ...buildEndStep(job),
    ...(webhook ? [buildWebhookStep(webhook)] : []),
  ];
  return markFailure(job, steps).map(toResponse);
}

/**
 * Marks a step of a failed job as failed. If no `submit`, `wait` or `store` step has failed yet,
 * this is the last of them, because a provider may end a wait by rejecting the call.
 */
function markFailure({ status }: JobRecord, steps: readonly Step[]): readonly Step[] {
  const isProviderStep = ({ name }: Step): boolean =>
    name === 'submit' || name === 'wait' || name === 'store';
  if (status !== 'failed' || steps.some((step) => isProviderStep(step) && step.state === 'failed'))
    return steps;
  const lastProviderStep = steps.findLast(isProviderStep);
  return steps.map((step) => (step === lastProviderStep ? { ...step, state: 'failed' } : step));
}

function listCallSteps(job: JobRecord, call: JobCall): Step[] {
  const { index, provider, providerRequestId, attempts, state } = call;
  const { acceptedAtMs, answeredAtMs, notifiedAtMs } = call;
  const callFields = { call: index, provider, providerRequestId };
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
    endedAtMs: submittedAtMs ?? (hasEnded ? job.completed_at : null),
  };
  const submitSteps = [...buildPauseStep(call), ...earlierSubmits, submit];
  if (acceptedAtMs === null) return submitSteps;
  const endedAtMs = notifiedAtMs ?? answeredAtMs ?? job.completed_at;
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
  return [{ ...noCallFields, name: 'store', state, startedAtMs, endedAtMs: job.completed_at }];
}

function buildEndStep(job: JobRecord): Step[] {
  if (job.status === 'open') return [];
  const name = job.billing_state === 'charged' ? 'charge' : 'release';
  const at = { startedAtMs: job.completed_at, endedAtMs: job.completed_at };
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
