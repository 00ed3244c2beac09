/** Failures of steps, and failures that the workflow itself makes. */
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/workflow';

/** Failure of a step. */
export interface StepFailure {
  /**
   * Code of the error table, or failure type of an activity (activities/attempt.ts); null for a
   * timeout and for a cancellation, after which an attempt may still be running.
   */
  type: string | null;
  message: string;
  /** True if another attempt would fail in the same way. */
  isFinal: boolean;
  /** Retry delay of the provider, if it sent one. */
  retryAfterMs: number | null;
}

/** Reads the failure of a step from the error that its activity threw. */
export function failureOf(error: unknown): StepFailure {
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
    retryAfterMs: retryAfterOf(details?.[0]),
  };
}

function retryAfterOf(detail: unknown): number | null {
  const hasDelay = typeof detail === 'object' && detail !== null && 'retryAfterMs' in detail;
  return hasDelay && typeof detail.retryAfterMs === 'number' ? detail.retryAfterMs : null;
}

/** Makes a failure that ends a call or the job; `code` is a code of the error table. */
export function failed(code: string, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code);
}
