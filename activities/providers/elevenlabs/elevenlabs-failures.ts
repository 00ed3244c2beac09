/** What ElevenLabs' errors mean for a call: rejected input, not accepted, unknown, failed. */
import { z } from 'zod';
import { parseRetryAfter } from '../retry-after.ts';
import { ProviderFailure } from '../provider.ts';
import { readJson, type ElevenlabsAnswer } from './elevenlabs-http.ts';

/** The documented shape, and FastAPI's list of a refused body. */
const worded = z.object({
  detail: z.object({ status: z.string().nullish(), code: z.string().nullish() }),
});
const listed = z.object({
  detail: z.array(z.object({ loc: z.array(z.unknown()).nullish() })),
});

const errorBytesMax = 64 * 1024;
/** The account's, not the caller's, doing: nothing was made, and another provider may still serve. */
const accountCodes = new Set(['quota_exceeded', 'invalid_api_key', 'missing_permissions']);
/** Words of the content filters; a song's prompt that names an artist is a `bad_prompt`. */
const policyCodes = new Set([
  'content_against_policy',
  'content_policy_violation',
  'bad_prompt',
  'bad_composition_plan',
  'blocked_by_moderation',
]);
/** How long to stay away when all of the plan's concurrent requests are taken. */
const busyWaitMs = 3000;

/** A submit that was answered with an error status. */
export async function failureOfAnswer(answer: ElevenlabsAnswer): Promise<ProviderFailure> {
  const { status } = answer;
  const body = await readJson(answer.body, errorBytesMax).catch(() => undefined);
  const code = codeOf(body);
  if (code !== null && policyCodes.has(code)) {
    return new ProviderFailure('content_policy', 'the input is against the content policy');
  }
  const retryAfterMs = parseRetryAfter(answer.headers['retry-after']);
  if (status === 429) {
    return new ProviderFailure('not_accepted', 'the provider is busy (429)', {
      retryAfterMs: retryAfterMs ?? busyWaitMs,
    });
  }
  const message = `the provider refused the call (${status})`;
  // Key, permission, quota and unknown voice are checked before any work; asking again changes nothing.
  if ([401, 402, 403, 404].includes(status) || (code !== null && accountCodes.has(code))) {
    return new ProviderFailure('refused', message);
  }
  // It says itself that nothing was taken.
  if (status === 503) return new ProviderFailure('not_accepted', message, { retryAfterMs });
  if ([400, 413, 422].includes(status)) {
    return new ProviderFailure('rejected', `the provider did not accept the input${where(body)}`);
  }
  // In its own words: the call has ended, and as it answers with the result, nothing follows.
  if (code !== null) return new ProviderFailure('failed', `the provider failed (${status})`);
  // An error page of something in between: the provider may still have done, and charged, the work.
  return new ProviderFailure('unknown', `the provider answered the call with ${status}`);
}

function codeOf(body: unknown): string | null {
  const parsed = worded.safeParse(body);
  return parsed.success ? (parsed.data.detail.status ?? parsed.data.detail.code ?? null) : null;
}

/** The fields that were refused: their names are ours to show, the provider's words are not. */
function where(body: unknown): string {
  const parsed = listed.safeParse(body);
  const fields = parsed.success
    ? parsed.data.detail
        .map((entry) => entry.loc?.at(-1))
        .filter((name) => typeof name === 'string')
    : [];
  return fields.length > 0 ? ` (${fields.join(', ')})` : '';
}
