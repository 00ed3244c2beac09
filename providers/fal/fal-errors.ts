/** Converts fal's error responses to failures. */
import { z } from 'zod';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import {
  contentPolicyFailure,
  toStatusFailure,
  parseRetryAfter,
  readInvalidFields,
} from '../error-responses.ts';
import type { CheckResult } from '../provider.ts';

/** Response of fal; `body` is the parsed JSON, undefined if too long or not JSON. */
export interface FalResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: unknown;
}

const platformError = z.object({ detail: z.string(), error_type: z.string().nullish() });

/** Creates the failure of a submit whose response has an error status. */
export function toSubmitFailure(response: FalResponse): ProviderFailure {
  const { types, fields } = readInvalidFields(response.body);
  const failure = toStatusFailure(response, {
    fields,
    isOwnError: findErrorType(response) !== null,
  });
  const violatesPolicy = failure.kind === 'rejected' && types.includes('content_policy_violation');
  return violatesPolicy ? contentPolicyFailure(response) : failure;
}

/** Returns fal's error type; null if the response is not from fal itself, e.g. from a proxy. */
function findErrorType({ headers, body }: FalResponse): string | null {
  const header = headers['x-fal-error-type'];
  if (typeof header === 'string') return header;
  return platformError.safeParse(body).data?.error_type ?? null;
}

/**
 * Reads the state of an operation from an error response to the request for its result.
 * @throws ProviderFailure `unreachable` if the response does not show the state
 */
export function readFailedResult(response: FalResponse): CheckResult {
  const platformBody = platformError.safeParse(response.body).data;
  if (platformBody && /in progress/i.test(platformBody.detail)) {
    return { kind: 'pending', progress: { state: 'generating', queuePosition: null } };
  }
  if (platformBody && /cancel/i.test(`${platformBody.error_type} ${platformBody.detail}`)) {
    return {
      kind: 'failed',
      failure: new ProviderFailure('canceled', 'the provider canceled the call'),
    };
  }
  if ([400, 413, 422].includes(response.status)) {
    return { kind: 'failed', failure: toSubmitFailure(response) };
  }
  if (findErrorType(response) || readInvalidFields(response.body).isListed) {
    return {
      kind: 'failed',
      failure: new ProviderFailure('failed', `the provider failed (${response.status})`),
    };
  }
  // An error page of a proxy does not show the state of the operation.
  throw unclearStatusFailure(response);
}

/** Creates the failure of a check whose response does not show the state of the operation. */
export function unclearStatusFailure({ status, headers }: FalResponse): ProviderFailure {
  return new ProviderFailure('unreachable', `the provider responded with status ${status}`, {
    retryAfterMs: parseRetryAfter(headers['retry-after']),
  });
}
