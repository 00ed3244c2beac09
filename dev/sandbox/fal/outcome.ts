/** Builds results and error bodies of fal requests, as documented by fal under "model errors" and "request errors". */
import { z } from 'zod';
import type { ValidationDetail } from '../pydantic.ts';
import { retryAfterHeader, type Fault } from '../faults.ts';
import type { JsonResponse } from '../http.ts';

/** Schema of an outcome in the log. */
export const outcomeSchema = z.object({
  status: z.number(),
  body: z.unknown(),
  headers: z.record(z.string(), z.string()),
  /** Set if the request failed; also returned by the status and the webhook. */
  error: z.string().optional(),
  errorType: z.string().optional(),
});

/** Response to a caller that fetches the result of a request. */
export type Outcome = z.infer<typeof outcomeSchema>;

/** Entry in the `detail` of a model error. */
interface ErrorDetail extends ValidationDetail {
  url: string;
}

const docsUrl = 'https://docs.fal.ai/errors';

/** Error of a model. The response has the body `{detail: [...]}` and the header `X-Fal-Retryable`. */
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

/** Builds the outcome of a model error. */
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

/** Builds the outcome of a platform error with an HTTP status. */
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

/** Builds the outcome of a content policy violation. */
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

/** Error messages for requests that fal does not accept, by status. */
export const rejectionMessages: Record<number, string> = {
  401: 'Cannot access application. Authentication is required.',
  403: 'User is locked. Reason: Exhausted balance.',
  429: 'Too many requests. Please slow down.',
};

/** Builds the response for the fault `submit`, which prevents acceptance. */
export function buildRejection(fault: Fault): JsonResponse {
  const status = Number(fault.argument || 503);
  const headers = retryAfterHeader(fault);
  const detail = rejectionMessages[status];
  if (detail !== undefined) return { status, body: { detail }, headers };
  const failure =
    status === 422
      ? modelFailure(
          new ModelError(422, [{ loc: ['body'], msg: 'Invalid input', type: 'value_error' }]),
        )
      : platformFailure(status);
  return { status, body: failure.body, headers: { ...failure.headers, ...headers } };
}
