/** Converts the failures of jobs and calls to the errors that callers receive. */
import type { ErrorCode } from '../domain/errors.ts';
import { readFailure } from './failures.ts';

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
];

/** Returns the error that the caller of a failed job or call receives. */
export function toPublicError(error: unknown): { code: ErrorCode; message: string } {
  const { type, message } = readFailure(error);
  const code = publicCodes.find((known) => known === type);
  return code
    ? { code, message }
    : { code: 'Internal server error', message: 'The job failed on our side.' };
}
