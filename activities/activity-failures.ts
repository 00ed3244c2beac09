/**
 * Converts errors to the failures that activities throw, with types that the workflow handles. A
 * `Retry-After` of the provider becomes the delay before the next attempt.
 */
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import { ProviderFailure, type FailureKind } from '../domain/provider-failure.ts';
import { StorageFailure } from '../storage/storage-failure.ts';

interface FailureType {
  /**
   * `ApplicationFailure.type`: a code from the error table, or a type that only the workflow
   * handles.
   */
  type: string;
  nonRetryable: boolean;
  /** True if the failure is expected, so that it must not raise an alert. */
  benign: boolean;
}

const failureTypes: Record<FailureKind, FailureType> = {
  rejected: { type: 'PROVIDER_REJECTED_INPUT', nonRetryable: true, benign: true },
  content_policy: { type: 'CONTENT_POLICY', nonRetryable: true, benign: true },
  not_accepted: { type: 'PROVIDER_NOT_ACCEPTED', nonRetryable: false, benign: false },
  misconfigured: { type: 'PROVIDER_NOT_ACCEPTED', nonRetryable: true, benign: false },
  unknown: { type: 'OUTCOME_UNKNOWN', nonRetryable: true, benign: false },
  failed: { type: 'PROVIDER_ERROR', nonRetryable: true, benign: false },
  canceled: { type: 'CANCELED', nonRetryable: true, benign: true },
  unfinished: { type: 'PROVIDER_UNFINISHED', nonRetryable: true, benign: true },
  unreachable: { type: 'PROVIDER_UNREACHABLE', nonRetryable: false, benign: false },
};

/**
 * Creates the failure of a call whose job is already settled, by the sweeper or by an earlier run
 * of its workflow.
 */
export function alreadySettledFailure(): ApplicationFailure {
  return ApplicationFailure.nonRetryable(
    'the call was not sent: the job is already settled',
    'JOB_LOST',
  );
}

/**
 * Number of an attempt on a task queue, and the number of the last attempt that is made if the
 * provider accepts none.
 */
export interface AttemptCount {
  /** Zero for a first attempt as a local activity. */
  attempt: number;
  submitAttemptsMax: number;
}

/** Number of attempts after which a result that cannot be read from its provider is given up. */
const readAttemptsMax = 6;

/**
 * Converts an error to the failure that the activity throws. Temporal retries a failure of the
 * gateway's own storage, and any unknown error, until the time of the step is over, because the
 * provider bills a call whose result was not stored.
 */
export function toApplicationFailure(
  error: unknown,
  { attempt, submitAttemptsMax }: AttemptCount,
): unknown {
  const isLastRead = attempt >= readAttemptsMax;
  if (error instanceof StorageFailure) {
    return ApplicationFailure.create({
      message: error.message,
      type: 'STORAGE_ERROR',
      nonRetryable: !error.retryable || (error.isDownload && isLastRead),
    });
  }
  if (!(error instanceof ProviderFailure)) return error;
  const row = failureTypes[error.kind];
  const isLast = error.kind === 'not_accepted' ? attempt >= submitAttemptsMax : isLastRead;
  return ApplicationFailure.create({
    message: error.message,
    type: row.type,
    nonRetryable: row.nonRetryable || isLast,
    ...(error.retryAfterMs !== undefined && {
      nextRetryDelay: error.retryAfterMs,
      // The workflow, which retries a first attempt itself, reads the delay here, because it cannot
      // read `nextRetryDelay`.
      details: [{ retryAfterMs: error.retryAfterMs }],
    }),
    ...(row.benign && { category: ApplicationFailureCategory.BENIGN }),
  });
}
