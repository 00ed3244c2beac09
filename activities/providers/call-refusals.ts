/** What an error status says of a call that was sent, the same for every provider. */
import { z } from 'zod';
import { ProviderFailure } from './provider.ts';
import { readJson, type ProviderAnswer } from './provider-http.ts';
import { parseRetryAfter } from './retry-after.ts';

const errorBytesMax = 64 * 1024;

/** A call that was answered with an error status; `fields` of the input that were refused, where they are told. */
export function failureOfStatus(
  { status, headers }: Pick<ProviderAnswer, 'status' | 'headers'>,
  { fields = [], busyWaitMs }: { fields?: readonly string[]; busyWaitMs?: number } = {},
): ProviderFailure {
  if ([400, 413, 415, 422].includes(status)) {
    const where = fields.length > 0 ? ` (${fields.join(', ')})` : '';
    return new ProviderFailure('rejected', `the provider did not accept the input${where}`);
  }
  const message = `the provider refused the call (${status})`;
  // Key, permission, quota, unknown model: before any work, and asking again changes nothing.
  if ([401, 402, 403, 404].includes(status)) return new ProviderFailure('refused', message);
  // Too many calls, overloaded: before any work.
  if ([429, 503].includes(status)) {
    const retryAfterMs = parseRetryAfter(headers['retry-after']) ?? busyWaitMs;
    return new ProviderFailure('not_accepted', message, { retryAfterMs });
  }
  return new ProviderFailure('unknown', `the provider answered the call with ${status}`);
}

/** The input is against the provider's content policy. */
export function againstPolicy(): ProviderFailure {
  return new ProviderFailure('content_policy', 'the input is against the content policy');
}

/** The body of an error, if it is a short JSON document. */
export function readErrorBody({ body }: ProviderAnswer): Promise<unknown> {
  return readJson(body, errorBytesMax).catch(() => undefined);
}

/** FastAPI's list of what it refuses in a body. */
const listed = z.object({
  detail: z.array(z.object({ type: z.string().nullish(), loc: z.array(z.unknown()).nullish() })),
});

/** Types and fields of FastAPI's list: their names are ours to show, the provider's words are not. */
export function refusedFields(body: unknown): {
  isListed: boolean;
  types: string[];
  fields: string[];
} {
  const { data, success: isListed } = listed.safeParse(body);
  const entries = data?.detail ?? [];
  const fields = entries.map(({ loc }) => loc?.at(-1)).filter((name) => typeof name === 'string');
  return { isListed, types: entries.map(({ type }) => type ?? ''), fields };
}
