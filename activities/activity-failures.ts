/**
 * Failures of activities, with types that the workflow handles. A `Retry-After` of the provider
 * becomes the next retry delay.
 */
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import { ProviderFailure, type FailureKind } from '../domain/provider-failure.ts';
import { StorageFailure } from '../storage/storage-failure.ts';

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
