/** What a failed step says: the words by which a workflow decides (activities/calls/attempt.ts writes them). */
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/workflow';

/** A failure of a step, local or not. */
export interface StepFailure {
  /** A code of the error table, or a word of retries; null for a timeout. */
  type: string | null;
  message: string;
  /** Whether the same would fail again. */
  isFinal: boolean;
  /** When the provider wants to be asked again, if it said so. */
  retryAfterMs: number | null;
}

/** Reads a failure. */
export function failureOf(error: unknown): StepFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (!(cause instanceof ApplicationFailure)) {
    const said = error instanceof Error ? error.message : String(error);
    const message = cause instanceof TimeoutFailure ? 'no answer in time' : said;
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
  const isTold = typeof detail === 'object' && detail !== null && 'retryAfterMs' in detail;
  return isTold && typeof detail.retryAfterMs === 'number' ? detail.retryAfterMs : null;
}

/** A failure that ends a call, or the job; `code` is of the error table. */
export function failed(code: string, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code);
}
