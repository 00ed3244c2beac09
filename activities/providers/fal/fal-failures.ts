/** What fal's errors mean for a call: rejected input, not accepted, unknown, failed. */
import { z } from 'zod';
import { againstPolicy, failureOfStatus, refusedFields } from '../call-refusals.ts';
import { ProviderFailure, type Checked } from '../provider.ts';
import { parseRetryAfter } from '../retry-after.ts';

/** An answer of fal with its JSON read; `body` is undefined when it was not JSON or too long. */
export interface FalAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: unknown;
}

const platformError = z.object({ detail: z.string(), error_type: z.string().nullish() });

/** A submit that was answered with an error status. */
export function failureOfSubmit(answer: FalAnswer): ProviderFailure {
  const { types, fields } = refusedFields(answer.body);
  const failure = failureOfStatus(answer, { fields });
  const isPolicy = failure.kind === 'rejected' && types.includes('content_policy_violation');
  return isPolicy ? againstPolicy() : failure;
}

/** A result fetch that was answered with an error status. */
export function failureOfResult(answer: FalAnswer): Checked {
  const platform = platformError.safeParse(answer.body).data;
  if (platform && /in progress/i.test(platform.detail)) {
    return { kind: 'pending', progress: { state: 'generating', queuePosition: null } };
  }
  if (platform && /cancel/i.test(`${platform.error_type} ${platform.detail}`)) {
    return { kind: 'failed', failure: new ProviderFailure('canceled', 'canceled at the provider') };
  }
  if ([400, 413, 422].includes(answer.status)) {
    return { kind: 'failed', failure: failureOfSubmit(answer) };
  }
  const verdict = answer.headers['x-fal-error-type'] ?? platform?.error_type;
  if (verdict || refusedFields(answer.body).isListed) {
    return {
      kind: 'failed',
      failure: new ProviderFailure('failed', `the provider failed (${answer.status})`),
    };
  }
  // An error page of something in between says nothing about the work.
  throw uninformative(answer);
}

/** A check that was answered with nothing that tells how the work stands. */
export function uninformative({ status, headers }: FalAnswer): ProviderFailure {
  return new ProviderFailure('unreachable', `the provider answered a check with ${status}`, {
    retryAfterMs: parseRetryAfter(headers['retry-after']),
  });
}
