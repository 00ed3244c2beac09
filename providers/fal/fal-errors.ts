/** Failures of fal's error responses. */
import { z } from 'zod';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import {
  againstPolicy,
  failureOfStatus,
  parseRetryAfter,
  refusedFields,
} from '../error-responses.ts';
import type { Checked } from '../provider.ts';

/** Response of fal; `body` is the parsed JSON, undefined if the body is not JSON or too long. */
export interface FalResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: unknown;
}

const platformError = z.object({ detail: z.string(), error_type: z.string().nullish() });

/** Returns the failure of a submit whose response has an error status. */
export function failureOfSubmit(response: FalResponse): ProviderFailure {
  const { types, fields } = refusedFields(response.body);
  const failure = failureOfStatus(response, { fields, isOwnError: errorTypeOf(response) !== null });
  const isPolicy = failure.kind === 'rejected' && types.includes('content_policy_violation');
  return isPolicy ? againstPolicy(response) : failure;
}

/** Returns fal's name of the failure; null if the response is not an error document of fal. */
function errorTypeOf({ headers, body }: FalResponse): string | null {
  const header = headers['x-fal-error-type'];
  if (typeof header === 'string') return header;
  return platformError.safeParse(body).data?.error_type ?? null;
}

/**
 * Returns the state of an operation whose result request has an error status.
 * @throws ProviderFailure `unreachable`
 */
export function failureOfResult(response: FalResponse): Checked {
  const platform = platformError.safeParse(response.body).data;
  if (platform && /in progress/i.test(platform.detail)) {
    return { kind: 'pending', progress: { state: 'generating', queuePosition: null } };
  }
  if (platform && /cancel/i.test(`${platform.error_type} ${platform.detail}`)) {
    return { kind: 'failed', failure: new ProviderFailure('canceled', 'canceled at the provider') };
  }
  if ([400, 413, 422].includes(response.status)) {
    return { kind: 'failed', failure: failureOfSubmit(response) };
  }
  if (errorTypeOf(response) || refusedFields(response.body).isListed) {
    return {
      kind: 'failed',
      failure: new ProviderFailure('failed', `the provider failed (${response.status})`),
    };
  }
  // An error page of a proxy in between does not show the state of the operation.
  throw uninformative(response);
}

/** Makes the failure of a check whose response does not show the state of the operation. */
export function uninformative({ status, headers }: FalResponse): ProviderFailure {
  return new ProviderFailure('unreachable', `the provider responded with status ${status}`, {
    retryAfterMs: parseRetryAfter(headers['retry-after']),
  });
}
