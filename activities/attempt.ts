/**
 * One attempt of an activity that calls a provider: takes a slot of the provider, sends heartbeats,
 * and converts errors to failures with types that the workflow handles. A `Retry-After` of the
 * provider becomes the next retry delay.
 */
import { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import type { CallTask } from '../jobs/job-plan.ts';
import { ProviderFailure, type FailureKind } from '../domain/provider-failure.ts';
import { StorageFailure } from '../storage/artifacts.ts';

const heartbeatIntervalMs = 4000;

/**
 * Runs one attempt in a slot of its provider; `slots` counts the free slots in this process. The
 * provider's task queue never dispatches more attempts than there are slots. A local activity
 * without a free slot fails as `PROVIDER_BUSY`, because the queue is fair between organizations.
 * @throws ApplicationFailure
 */
export async function attemptInSlot<Outcome>(
  slots: Map<string, number>,
  { route: { provider, submitTimeoutMs }, refusalsMax }: CallTask,
  run: () => Promise<Outcome>,
): Promise<Outcome> {
  const { activityType, isLocal } = Context.current().info;
  const free = (): number => slots.get(provider) ?? 0;
  if (isLocal && free() <= 0) {
    throw ApplicationFailure.create({
      message: 'nothing was sent: all slots of the provider in this process are in use',
      type: 'PROVIDER_BUSY',
      category: ApplicationFailureCategory.BENIGN,
    });
  }
  slots.set(provider, free() - 1);
  try {
    const since = new Date().toISOString();
    const limit = activityType === 'submit' ? { providerLimitSeconds: submitTimeoutMs / 1000 } : {};
    return await attempt(run, { refusalsMax, detail: { provider, since, ...limit } });
  } finally {
    slots.set(provider, free() + 1);
  }
}

/** Options of an attempt. */
interface AttemptOptions {
  /**
   * Number of attempts on the task queue after which a refusal is final. The first attempt, which
   * is a local activity, is not counted.
   */
  refusalsMax?: number;
  /** Detail of the heartbeats, which the Temporal UI shows while the activity is pending. */
  detail?: { provider: string; since: string; providerLimitSeconds?: number };
}

/** Runs one attempt with heartbeats. @throws ApplicationFailure */
export async function attempt<Outcome>(
  run: () => Promise<Outcome>,
  { refusalsMax = Infinity, detail }: AttemptOptions = {},
): Promise<Outcome> {
  const context = Context.current();
  const beat = setInterval(() => context.heartbeat(detail), heartbeatIntervalMs);
  try {
    return await run();
  } catch (error) {
    throw toApplicationFailure(error, !context.info.isLocal && context.info.attempt >= refusalsMax);
  } finally {
    clearInterval(beat);
  }
}

interface FailureRow {
  /** `ApplicationFailure.type`: a code of the error table, or a type that only retries use. */
  type: string;
  nonRetryable: boolean;
  /** True if the caller caused the failure, which then raises no alert. */
  benign: boolean;
}

const rows: Record<FailureKind, FailureRow> = {
  rejected: { type: 'PROVIDER_REJECTED_INPUT', nonRetryable: true, benign: true },
  content_policy: { type: 'CONTENT_POLICY', nonRetryable: true, benign: true },
  not_accepted: { type: 'PROVIDER_NOT_ACCEPTED', nonRetryable: false, benign: false },
  refused: { type: 'PROVIDER_NOT_ACCEPTED', nonRetryable: true, benign: false },
  unknown: { type: 'OUTCOME_UNKNOWN', nonRetryable: true, benign: false },
  failed: { type: 'PROVIDER_ERROR', nonRetryable: true, benign: false },
  canceled: { type: 'CANCELED', nonRetryable: true, benign: true },
  unfinished: { type: 'PROVIDER_UNFINISHED', nonRetryable: true, benign: true },
  unreachable: { type: 'PROVIDER_UNREACHABLE', nonRetryable: false, benign: false },
};

/**
 * Makes the failure of a call whose job was settled, by the sweeper or by an earlier run of its
 * workflow.
 */
export function jobSettledBefore(): ApplicationFailure {
  return ApplicationFailure.nonRetryable('the job was settled before this call', 'JOB_LOST');
}

/**
 * Converts an error to the failure that the activity throws; unknown errors are returned unchanged,
 * and Temporal retries them. With `lastRefusal`, another refusal of the provider is final.
 */
export function toApplicationFailure(error: unknown, lastRefusal: boolean): unknown {
  if (error instanceof StorageFailure) {
    return ApplicationFailure.create({
      message: error.message,
      type: 'STORAGE_ERROR',
      nonRetryable: !error.retryable,
    });
  }
  if (!(error instanceof ProviderFailure)) return error;
  const row = rows[error.kind];
  return ApplicationFailure.create({
    message: error.message,
    type: row.type,
    nonRetryable: row.nonRetryable || (lastRefusal && error.kind === 'not_accepted'),
    ...(error.retryAfterMs !== undefined && {
      nextRetryDelay: error.retryAfterMs,
      // Delay for a workflow that retries by itself, because a failure does not carry
      // `nextRetryDelay` back.
      details: [{ retryAfterMs: error.retryAfterMs }],
    }),
    ...(row.benign && { category: ApplicationFailureCategory.BENIGN }),
  });
}
