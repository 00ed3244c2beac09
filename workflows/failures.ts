/** Failures of steps, and failures that the workflow itself throws. */
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/workflow';
import type { ErrorCode } from '../domain/errors.ts';

/** Failure of a step. */
export interface StepFailure {
  /**
   * Code from the error table (domain/errors.ts), or a failure type that only activities use
   * (activities/activity-failures.ts). Null if the step timed out or was canceled; an attempt may
   * then still be running.
   */
  type: string | null;
  message: string;
  /** True if the step must not be retried, because another attempt would fail in the same way. */
  isFinal: boolean;
  /** Milliseconds before a retry that the provider requested; null if it requested none. */
  retryAfterMs: number | null;
}

/** Reads the failure of a step from the error that its activity threw. */
export function readFailure(error: unknown): StepFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (!(cause instanceof ApplicationFailure)) {
    const text = error instanceof Error ? error.message : String(error);
    const message = cause instanceof TimeoutFailure ? 'no response in time' : text;
    return { type: null, message, isFinal: false, retryAfterMs: null };
  }
  const { type, message, nonRetryable, details } = cause;
  return {
    type: type ?? null,
    message,
    isFinal: nonRetryable ?? false,
    retryAfterMs: readRetryAfter(details?.[0]),
  };
}

function readRetryAfter(detail: unknown): number | null {
  const hasDelay = typeof detail === 'object' && detail !== null && 'retryAfterMs' in detail;
  return hasDelay && typeof detail.retryAfterMs === 'number' ? detail.retryAfterMs : null;
}

/** Creates a failure that ends a call or the job. `code` is an error code from domain/errors.ts. */
export function createFailure(code: string, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code);
}

/**
 * Failure types that callers receive as error codes. Callers receive a failure of another type as
 * an internal error.
 */
const publicCodes: readonly ErrorCode[] = [
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'PROVIDER_ERROR',
  'STORAGE_ERROR',
  'DEADLINE_EXCEEDED',
  'OUTCOME_UNKNOWN',
  'CANCELED',
  'JOB_LOST',
  'PRICE_LIMIT_EXCEEDED',
  'INVALID_REQUEST',
  'SKIPPED',
  'APPROVAL_REJECTED',
  'APPROVAL_TIMEOUT',
];

/** Returns the error that the caller of a failed job or call receives. */
export function toPublicError(error: unknown): { code: ErrorCode; message: string } {
  const { type, message } = readFailure(error);
  const code = publicCodes.find((known) => known === type);
  return code
    ? { code, message }
    : { code: 'Internal server error', message: 'The job failed on our side.' };
}
