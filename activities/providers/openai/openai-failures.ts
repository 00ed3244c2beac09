/** What OpenAI's errors mean for a call: `{error: {message, type, param, code}}`. */
import { z } from 'zod';
import { ProviderFailure } from '../provider.ts';
import { parseRetryAfter } from '../retry-after.ts';

interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: unknown;
}

const errorBody = z.object({
  error: z.object({ code: z.string().nullish(), param: z.string().nullish() }),
});
const policyCodes = new Set(['moderation_blocked', 'content_policy_violation']);

/** A call that was answered with an error status. */
export function failureOfAnswer({ status, headers, body }: Answer): ProviderFailure {
  const parsed = errorBody.safeParse(body);
  const error = parsed.success ? parsed.data.error : undefined;
  if (error?.code && policyCodes.has(error.code)) {
    return new ProviderFailure('content_policy', 'the input is against the content policy');
  }
  if ([400, 413, 415, 422].includes(status)) {
    const where = error?.param ? ` (${error.param})` : '';
    return new ProviderFailure('rejected', `the provider did not accept the input${where}`);
  }
  const message = `the provider refused the call (${status})`;
  // No right to it, no such model: before any work, and asking again changes nothing.
  if ([401, 402, 403, 404].includes(status)) return new ProviderFailure('refused', message);
  // Too many calls, overloaded: before any work.
  if ([429, 503].includes(status)) {
    return new ProviderFailure('not_accepted', message, {
      retryAfterMs: parseRetryAfter(headers['retry-after']),
    });
  }
  // In its own words: the call has ended, and as it answers with the result, nothing follows.
  if (error) return new ProviderFailure('failed', `the provider failed (${status})`);
  // An error page of something in between: the provider may still have done, and charged, the work.
  return new ProviderFailure('unknown', `the provider answered the call with ${status}`);
}
