/**
 * Results of fal requests, and fal's documented error bodies (docs: model errors, request errors).
 */
import { z } from 'zod';
import type { ValidationDetail } from '../pydantic.ts';
import { retryAfterOf, type Fault } from '../faults.ts';
import type { JsonAnswer } from '../http.ts';

/** Response to a request for the result, as the log keeps it. */
export const outcomeSchema = z.object({
  status: z.number(),
  body: z.unknown(),
  headers: z.record(z.string(), z.string()),
  /** Set when the request failed: `error` of the status and of the webhook. */
  error: z.string().optional(),
  errorType: z.string().optional(),
});

/** Response to a request for the result. */
export type Outcome = z.infer<typeof outcomeSchema>;

/** One entry of a model error's `detail`. */
interface ErrorDetail extends ValidationDetail {
  url: string;
}

const docsUrl = 'https://docs.fal.ai/errors';

/** Rejection by a model: becomes `{detail: [...]}` with `X-Fal-Retryable`. */
export class ModelError extends Error {
  override readonly name = 'ModelError';
  readonly status: number;
  readonly detail: ErrorDetail[];

  constructor(status: number, detail: ValidationDetail[]) {
    super(detail[0]?.msg ?? 'model error');
    this.status = status;
    this.detail = detail.map((entry) => ({ ...entry, url: `${docsUrl}#${entry.type}` }));
  }
}

/** Makes the result of a model error. */
export function modelFailure(error: ModelError): Outcome {
  return {
    status: error.status,
    body: { detail: error.detail },
    headers: { 'X-Fal-Retryable': error.status >= 500 ? 'true' : 'false' },
    error: `Invalid status code: ${error.status}`,
  };
}

const platformErrors: Record<number, { type: string; detail: string }> = {
  400: { type: 'bad_request', detail: 'The request was malformed' },
  499: { type: 'client_cancelled', detail: 'Request was cancelled' },
  500: { type: 'internal_error', detail: 'An unexpected internal error occurred' },
  502: { type: 'runner_incomplete_response', detail: 'The runner sent an incomplete response' },
  503: { type: 'runner_scheduling_failure', detail: 'No runner could be allocated' },
  504: { type: 'request_timeout', detail: 'Request timed out' },
};

/** Makes the result of a platform error with this HTTP status. */
export function platformFailure(status: number): Outcome {
  const known = platformErrors[status];
  const type = known?.type ?? 'internal_error';
  const detail = known?.detail ?? 'An unexpected internal error occurred';
  return {
    status,
    body: { detail, error_type: type },
    headers: { 'X-Fal-Error-Type': type },
    error: detail,
    errorType: type,
  };
}

/** Makes the result of a content policy violation. */
export function policyFailure(): Outcome {
  return modelFailure(
    new ModelError(422, [
      {
        loc: ['body', 'prompt'],
        msg: 'The content could not be processed because it was flagged by a content checker.',
        type: 'content_policy_violation',
      },
    ]),
  );
}

/** Error messages of fal by status. */
export const refusals: Record<number, string> = {
  401: 'Cannot access application. Authentication is required.',
  403: 'User is locked. Reason: Exhausted balance.',
  429: 'Too many requests. Please slow down.',
};

/** Makes the response of `[[submit:STATUS]]`: nothing was accepted. */
export function refusal(fault: Fault): JsonAnswer {
  const status = Number(fault.argument || 503);
  const headers = retryAfterOf(fault);
  const detail = refusals[status];
  if (detail !== undefined) return { status, body: { detail }, headers };
  const failure =
    status === 422
      ? modelFailure(
          new ModelError(422, [{ loc: ['body'], msg: 'Invalid input', type: 'value_error' }]),
        )
      : platformFailure(status);
  return { status, body: failure.body, headers: { ...failure.headers, ...headers } };
}
