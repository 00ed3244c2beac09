/**
 * Steps of a job with their times: reserve, then submit and wait of each call, then store, then
 * charge or release, then the webhook. They are read from the rows that the steps write; Temporal
 * has every attempt.
 */
import { z } from 'zod';
import type { JobCall, JobRecord } from '../../jobs/records/job-reads.ts';
import type { WebhookRecord } from '../../webhooks/webhooks.ts';
import { isoTimes } from '../../domain/json.ts';

const time = z.iso.datetime();

/** A step. */
export const stepSchema = z
  .object({
    name: z.enum(['reserve', 'submit', 'wait', 'store', 'charge', 'release', 'webhook']),
    state: z.enum(['waiting', 'running', 'done', 'failed']),
    call: z.int().nullable().meta({ description: 'Which request to a provider, from 0.' }),
    provider: z.string().nullable(),
    providerRequestId: z.string().nullable(),
    attempts: z.int().nullable().meta({ description: 'How often it was tried, if known.' }),
    startedAt: time.nullable(),
    endedAt: time.nullable(),
  })
  .meta({ id: 'JobStep' });

type Shown = z.infer<typeof stepSchema>;
type Step = Omit<Shown, 'startedAt' | 'endedAt'> & {
  startedAtMs: number | null;
  endedAtMs: number | null;
};

const noCall = { call: null, provider: null, providerRequestId: null, attempts: null };

/** Lists the steps of a job. */
export function stepsOf(
  job: JobRecord,
  calls: readonly JobCall[],
  webhook: WebhookRecord | null,
): Shown[] {
  const reservedAt = { startedAtMs: job.created_at, endedAtMs: job.created_at };
  const steps: Step[] = [
    { ...noCall, name: 'reserve', state: 'done', ...reservedAt },
    ...calls.flatMap((call) => callSteps(job, call)),
    ...storeStep(job, calls),
    ...endStep(job),
    ...(webhook ? [webhookStep(webhook)] : []),
  ];
  return steps.map(isoTimes);
}

function callSteps(job: JobRecord, call: JobCall): Step[] {
  const { index, provider, providerRequestId, attempts, state } = call;
  const { acceptedAtMs, answeredAtMs, notifiedAtMs, begunAtMs } = call;
  const of = { call: index, provider, providerRequestId };
  const over = job.status !== 'queued';
  const tried = acceptedAtMs ?? answeredAtMs;
  const taken = state === 'accepted' || state === 'answered';
  const submit: Step = {
    ...of,
    name: 'submit',
    state: taken ? 'done' : over ? 'failed' : state === 'waiting' ? 'waiting' : 'running',
    attempts,
    startedAtMs: state === 'waiting' ? null : begunAtMs,
    endedAtMs: tried ?? (over ? job.completed_at : null),
  };
  if (acceptedAtMs === null) return [submit];
  const heardAtMs = notifiedAtMs ?? answeredAtMs ?? job.completed_at;
  const lost = over && job.status !== 'completed' && notifiedAtMs === null;
  const wait: Step = {
    ...of,
    name: 'wait',
    state: heardAtMs === null ? 'running' : lost ? 'failed' : 'done',
    attempts: null,
    startedAtMs: acceptedAtMs,
    endedAtMs: heardAtMs,
  };
  return [submit, wait];
}

/**
 * Makes the step from the last response of a provider to the end of the job: media are read, probed
 * and stored.
 */
function storeStep(job: JobRecord, calls: readonly JobCall[]): Step[] {
  const words = calls.map(({ notifiedAtMs, answeredAtMs }) => notifiedAtMs ?? answeredAtMs);
  const heard = words.filter((word) => word !== null);
  if (job.status === 'queued' && (heard.length < calls.length || heard.length === 0)) return [];
  if (job.status !== 'queued' && job.status !== 'completed') {
    if (job.error?.code !== 'STORAGE_ERROR') return [];
  }
  const state = job.status === 'queued' ? 'running' : job.error ? 'failed' : 'done';
  const startedAtMs = heard.length > 0 ? Math.max(...heard) : null;
  return [{ ...noCall, name: 'store', state, startedAtMs, endedAtMs: job.completed_at }];
}

function endStep(job: JobRecord): Step[] {
  if (job.status === 'queued') return [];
  const name = job.billing_state === 'charged' ? 'charge' : 'release';
  const at = { startedAtMs: job.completed_at, endedAtMs: job.completed_at };
  return [{ ...noCall, name, state: 'done', ...at }];
}

function webhookStep({ state, attempts, createdAtMs, updatedAtMs }: WebhookRecord): Step {
  const ended = state === 'delivered' || state === 'gone' || state === 'failed';
  return {
    ...noCall,
    name: 'webhook',
    state:
      state === 'delivered'
        ? 'done'
        : ended
          ? 'failed'
          : state === 'waiting'
            ? 'waiting'
            : 'running',
    attempts,
    startedAtMs: state === 'waiting' ? null : createdAtMs,
    endedAtMs: ended ? updatedAtMs : null,
  };
}
