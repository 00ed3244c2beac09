/** Converts error responses of providers to failures. */
import { z } from 'zod';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { readJson, type ProviderResponse } from './provider-http.ts';

/**
 * Converts a `Retry-After` header (seconds or an HTTP date, RFC 9110 §10.2.3) to milliseconds, at
 * most an hour. Undefined if the header is absent or invalid.
 */
export function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  const value = Array.isArray(header) ? header[0] : header;
  if (value === undefined) return undefined;
  const waitMs = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  if (!Number.isFinite(waitMs)) return undefined;
  return Math.min(Math.max(waitMs, 0), 3_600_000);
}

/** Response headers that contain the provider's request id. */
const requestIdHeaders = ['x-fal-request-id', 'x-request-id', 'request-id'] as const;

/** Returns the provider's request id; null if the response has none. */
export function findRequestId(headers: ProviderResponse['headers']): string | null {
  for (const name of requestIdHeaders) {
    const value = headers[name];
    if (typeof value === 'string' && value !== '') return value.slice(0, 200);
  }
  return null;
}

const errorBytesMax = 64 * 1024;

/** Properties of an error response in addition to its status. */
interface ErrorDetails {
  /** Names of the input fields that the provider rejected. */
  fields?: readonly string[];
  /** Delay before the next attempt if the provider is busy and sends no `Retry-After`. */
  busyWaitMs?: number;
  /** True if the provider itself sent the error, not a proxy in front of it. */
  isOwnError: boolean;
}

/** Returns the failure of a call whose response has an error status. */
export function toStatusFailure(
  { status, headers }: Pick<ProviderResponse, 'status' | 'headers'>,
  { fields = [], busyWaitMs, isOwnError }: ErrorDetails,
): ProviderFailure {
  const providerRequestId = findRequestId(headers);
  if ([400, 413, 415, 422].includes(status)) {
    const suffix = fields.length > 0 ? ` (${fields.join(', ')})` : '';
    const message = `the provider rejected the input${suffix}`;
    return new ProviderFailure('rejected', message, { providerRequestId });
  }
  const message = `the provider did not accept the call (${status})`;
  // Invalid key, missing permission, exceeded quota or unknown model: the provider did no work, and
  // a retry does not help.
  if ([401, 402, 403, 404].includes(status)) {
    return new ProviderFailure('misconfigured', message, { providerRequestId });
  }
  // Too many calls or overload: the provider did no work, and a retry may succeed.
  if ([429, 503].includes(status)) {
    const retryAfterMs = parseRetryAfter(headers['retry-after']) ?? busyWaitMs;
    return new ProviderFailure('not_accepted', message, { retryAfterMs, providerRequestId });
  }
  // The call has ended at the provider, and no configured provider charges for a call that failed
  // on its side.
  if (isOwnError) {
    return new ProviderFailure('failed', `the provider failed (${status})`, { providerRequestId });
  }
  // The error page of a proxy: the provider may have accepted the call.
  const unclear = `the provider responded to the call with status ${status}`;
  return new ProviderFailure('unknown', unclear, { providerRequestId });
}

/** Creates the failure for an input that violates the provider's content policy. */
export function contentPolicyFailure({
  headers,
}: Pick<ProviderResponse, 'headers'>): ProviderFailure {
  return new ProviderFailure('content_policy', 'the input violates the content policy', {
    providerRequestId: findRequestId(headers),
  });
}

/**
 * Reads the body of an error response; undefined if it is not JSON, is longer than 64 KiB or cannot
 * be read.
 */
export function readErrorBody({ body }: ProviderResponse): Promise<unknown> {
  return readJson(body, errorBytesMax).catch(() => undefined);
}

/** Error body of FastAPI for an invalid request. */
const invalidFieldsBody = z.object({
  detail: z.array(z.object({ type: z.string().nullish(), loc: z.array(z.unknown()).nullish() })),
});

/**
 * Returns the error types and field names in FastAPI's list of invalid fields. Omits the provider's
 * texts, because callers must not see them.
 */
export function readInvalidFields(body: unknown): {
  isListed: boolean;
  types: string[];
  fields: string[];
} {
  const { data, success: isListed } = invalidFieldsBody.safeParse(body);
  const entries = data?.detail ?? [];
  const fields = entries.map(({ loc }) => loc?.at(-1)).filter((name) => typeof name === 'string');
  return { isListed, types: entries.map(({ type }) => type ?? ''), fields };
}
