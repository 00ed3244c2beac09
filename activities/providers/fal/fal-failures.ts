/** What fal's errors mean for a call: rejected input, not accepted, unknown, failed. */
import { z } from 'zod';
import { parseRetryAfter } from '../retry-after.ts';
import { ProviderFailure, type Checked } from '../provider.ts';

interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: unknown;
}

const modelError = z.object({
  detail: z.array(z.object({ type: z.string().nullish(), loc: z.array(z.unknown()).nullish() })),
});
const platformError = z.object({ detail: z.string(), error_type: z.string().nullish() });

/** A submit that was answered with an error status. */
export function failureOfSubmit(answer: Answer): ProviderFailure {
  const retryAfterMs = parseRetryAfter(answer.headers['retry-after']);
  if ([400, 413, 422].includes(answer.status)) return rejection(answer);
  const message = `the provider refused the call (${answer.status})`;
  // These come before the queue, and asking again changes nothing.
  if ([401, 402, 403, 404].includes(answer.status)) return new ProviderFailure('refused', message);
  // These say that the request was not taken.
  if ([429, 503].includes(answer.status)) {
    return new ProviderFailure('not_accepted', message, { retryAfterMs });
  }
  // In fal's own words: the request failed, nothing follows, and no 5xx of theirs is charged.
  if (errorTypeOf(answer)) {
    return new ProviderFailure('failed', `the provider failed (${answer.status})`);
  }
  // An error page of something in between: the queue may have the request all the same.
  return new ProviderFailure('unknown', `the provider answered the submit with ${answer.status}`);
}

/** What fal calls the failure; null where the answer is not fal's own. */
function errorTypeOf({ headers, body }: Answer): string | null {
  const header = headers['x-fal-error-type'];
  if (typeof header === 'string') return header;
  return platformError.safeParse(body).data?.error_type ?? null;
}

function rejection(answer: Answer): ProviderFailure {
  const parsed = modelError.safeParse(answer.body);
  const types = parsed.success ? parsed.data.detail.map((entry) => entry.type ?? '') : [];
  if (types.includes('content_policy_violation')) {
    return new ProviderFailure('content_policy', 'the input is against the content policy');
  }
  const fields = parsed.success
    ? parsed.data.detail
        .map((entry) => entry.loc?.at(-1))
        .filter((name) => typeof name === 'string')
    : [];
  const where = fields.length > 0 ? ` (${fields.join(', ')})` : '';
  return new ProviderFailure('rejected', `the provider did not accept the input${where}`);
}

/** A result fetch that was answered with an error status. */
export function failureOfResult(answer: Answer): Checked {
  const platform = platformError.safeParse(answer.body);
  if (platform.success && /in progress/i.test(platform.data.detail)) {
    return { kind: 'pending', progress: { state: 'generating', queuePosition: null } };
  }
  if (platform.success && /cancel/i.test(`${platform.data.error_type} ${platform.data.detail}`)) {
    return { kind: 'failed', failure: new ProviderFailure('canceled', 'canceled at the provider') };
  }
  if ([400, 413, 422].includes(answer.status))
    return { kind: 'failed', failure: rejection(answer) };
  if (errorTypeOf(answer) || modelError.safeParse(answer.body).success) {
    return {
      kind: 'failed',
      failure: new ProviderFailure('failed', `the provider failed (${answer.status})`),
    };
  }
  // An error page of something in between says nothing about the work.
  throw new ProviderFailure('unreachable', `the provider answered a look with ${answer.status}`, {
    retryAfterMs: parseRetryAfter(answer.headers['retry-after']),
  });
}
