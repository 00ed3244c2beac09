/**
 * Converts errors to the failures that activities throw. The workflow handles a failure by its
 * type. If the provider sent `Retry-After`, its value becomes the delay before the next attempt.
 */
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import { ProviderFailure, type FailureKind } from '../domain/provider-failure.ts';
import { StorageFailure } from '../storage/storage.ts';

interface FailureType {
  /**
   * `ApplicationFailure.type`: a code from the error table, or a type that only the workflow
   * handles.
   */
  type: string;
  nonRetryable: boolean;
  /** True if the failure is expected, so that it raises no alert. */
  benign: boolean;
}

const failureTypes: Record<FailureKind, FailureType> = {
  rejected: { type: 'PROVIDER_REJECTED_INPUT', nonRetryable: true, benign: true },
  content_policy: { type: 'CONTENT_POLICY', nonRetryable: true, benign: true },
  input_unread: { type: 'INPUT_UNREAD', nonRetryable: true, benign: false },
  not_accepted: { type: 'PROVIDER_NOT_ACCEPTED', nonRetryable: false, benign: false },
  misconfigured: { type: 'PROVIDER_NOT_ACCEPTED', nonRetryable: true, benign: false },
  unknown: { type: 'OUTCOME_UNKNOWN', nonRetryable: true, benign: false },
  failed: { type: 'PROVIDER_ERROR', nonRetryable: true, benign: false },
  canceled: { type: 'CANCELED', nonRetryable: true, benign: true },
  unfinished: { type: 'PROVIDER_UNFINISHED', nonRetryable: true, benign: true },
  unreachable: { type: 'PROVIDER_UNREACHABLE', nonRetryable: false, benign: false },
};

/** Creates the failure of a call that was not sent because its job is already settled. */
export function alreadySettledFailure(): ApplicationFailure {
  return ApplicationFailure.nonRetryable(
    'the call was not sent: the job is already settled',
    'JOB_LOST',
  );
}

/** Number of an attempt, and the maximum for its call (`CallInput.submitAttemptsMax`). */
export interface AttemptCount {
  /** Number of the attempt, from 1; 0 for a first attempt as a local activity. */
  attempt: number;
  submitAttemptsMax: number;
}

/** Maximum number of attempts to read a result from its provider, before the call fails. */
const readAttemptsMax = 6;

/**
 * Converts an error to the failure that the activity throws. Temporal retries a failure of the
 * gateway's own storage and any unknown error until the time limit of the step, because the
 * provider charges for a call even if its result was not stored.
 */
export function toApplicationFailure(
  error: unknown,
  { attempt, submitAttemptsMax }: AttemptCount,
): unknown {
  const isLastReadAttempt = attempt >= readAttemptsMax;
  if (error instanceof StorageFailure) {
    return ApplicationFailure.create({
      message: error.message,
      type: 'STORAGE_ERROR',
      nonRetryable: !error.retryable || (error.isDownload && isLastReadAttempt),
    });
  }
  if (!(error instanceof ProviderFailure)) return error;
  const failureType = failureTypes[error.kind];
  // Attempts that found no free slot have sent nothing.
  const submits = Math.min(attempt, error.unacceptedSubmits ?? attempt);
  const isLastAttempt =
    error.kind === 'not_accepted' ? submits >= submitAttemptsMax : isLastReadAttempt;
  return ApplicationFailure.create({
    message: error.message,
    type: failureType.type,
    nonRetryable: failureType.nonRetryable || isLastAttempt,
    ...(error.retryAfterMs !== undefined && {
      nextRetryDelay: error.retryAfterMs,
      // The workflow itself retries a step whose first attempt was a local activity. It reads the
      // delay here, because it cannot read `nextRetryDelay`.
      details: [{ retryAfterMs: error.retryAfterMs }],
    }),
    ...(failureType.benign && { category: ApplicationFailureCategory.BENIGN }),
  });
}
