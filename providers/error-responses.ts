/** Converts error responses of providers to failures. */
import { z } from 'zod';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { readJson, type ProviderResponse } from './provider-http.ts';

/**
 * Converts a `Retry-After` header (seconds or an HTTP date, RFC 9110 §10.2.3) to milliseconds, at
 * most one hour. Returns undefined if the header is absent or invalid.
 */
export function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  const value = Array.isArray(header) ? header[0] : header;
  if (value === undefined) return undefined;
  const waitMs = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  if (!Number.isFinite(waitMs)) return undefined;
  return Math.min(Math.max(waitMs, 0), 3_600_000);
}

/** Names of response headers that may contain the provider request id. */
const requestIdHeaders = ['x-fal-request-id', 'x-request-id', 'request-id'] as const;

/** Returns the provider request id from the headers of a response; null if there is none. */
export function findRequestId(headers: ProviderResponse['headers']): string | null {
  for (const name of requestIdHeaders) {
    const value = headers[name];
    if (typeof value === 'string' && value !== '') return value.slice(0, 200);
  }
  return null;
}

const errorBytesMax = 64 * 1024;

/** Properties of an error response in addition to its status and headers. */
interface ErrorDetails {
  /** Names of the input fields that the provider rejected. */
  fields?: readonly string[];
  /** Milliseconds before the next attempt if a busy provider sends no `Retry-After`. */
  busyWaitMs?: number;
  /** Provider's own type or code of the error. */
  errorType: string | null | undefined;
  /** True if the provider itself sent the error, not a proxy in front of it. */
  isOwnError: boolean;
}

/** Creates the failure of a call whose response has an error status. */
export function toStatusFailure(
  { status, headers }: Pick<ProviderResponse, 'status' | 'headers'>,
  { fields = [], busyWaitMs, errorType, isOwnError }: ErrorDetails,
): ProviderFailure {
  const ids = { providerRequestId: findRequestId(headers), providerErrorType: errorType };
  if ([400, 413, 415, 422].includes(status)) {
    const suffix = fields.length > 0 ? ` (${fields.join('; ')})` : '';
    const message = `the provider rejected the input${suffix}`;
    if (errorType === 'file_download_error')
      return new ProviderFailure('input_unread', message, ids);
    return new ProviderFailure('rejected', message, ids);
  }
  const message = `the provider did not accept the call (${status})`;
  // These statuses mean an invalid key, a missing permission, an exceeded quota or an unknown
  // model. The provider did no work, and a retry would fail too.
  if ([401, 402, 403, 404].includes(status)) {
    return new ProviderFailure('misconfigured', message, ids);
  }
  // Too many calls or overload: the provider did no work, and a retry may succeed.
  if ([429, 503].includes(status)) {
    const retryAfterMs = parseRetryAfter(headers['retry-after']) ?? busyWaitMs;
    return new ProviderFailure('not_accepted', message, { ...ids, retryAfterMs });
  }
  // The provider reports that the call has failed. No configured provider charges for a call that
  // failed on its side.
  if (isOwnError) {
    return new ProviderFailure('failed', `the provider failed (${status})`, ids);
  }
  // The response is an error page of a proxy. The provider may have accepted the call.
  const unclearMessage = `the provider responded to the call with status ${status}`;
  return new ProviderFailure('unknown', unclearMessage, ids);
}

/** Creates the failure for an input that violates the provider's content policy. */
export function contentPolicyFailure(
  { headers }: Pick<ProviderResponse, 'headers'>,
  { errorType }: Pick<ErrorDetails, 'errorType'>,
): ProviderFailure {
  return new ProviderFailure('content_policy', 'the input violates the content policy', {
    providerRequestId: findRequestId(headers),
    providerErrorType: errorType,
  });
}

/**
 * Reads the JSON body of an error response. Returns undefined if the body is not JSON, is longer
 * than 64 KiB or cannot be read.
 */
export function readErrorBody({ body }: ProviderResponse): Promise<unknown> {
  return readJson(body, errorBytesMax).catch(() => undefined);
}

/** Schema of the error body that FastAPI sends for an invalid request. */
const invalidFieldsBody = z.object({
  detail: z.array(z.object({ type: z.string().nullish(), loc: z.array(z.unknown()).nullish() })),
});

/** Reasons in the gateway's words, keyed by the error types of fal and FastAPI. */
const reasons: Readonly<Record<string, string>> = {
  missing: 'is required',
  string_too_short: 'is too short',
  string_too_long: 'is too long',
  too_short: 'has too few items',
  too_long: 'has too many items',
  sequence_too_short: 'has too few items',
  sequence_too_long: 'has too many items',
  greater_than: 'is too small',
  greater_than_equal: 'is too small',
  less_than: 'is too large',
  less_than_equal: 'is too large',
  multiple_of: 'is not a multiple of the step',
  one_of: 'is not an allowed value',
  enum: 'is not an allowed value',
  literal_error: 'is not an allowed value',
  extra_forbidden: 'is not supported',
  image_too_small: 'image is too small',
  image_too_large: 'image is too large',
  image_load_error: 'image cannot be read',
  unsupported_image_format: 'image has a format that is not supported',
  unsupported_audio_format: 'recording has a format that is not supported',
  unsupported_video_format: 'video has a format that is not supported',
  audio_duration_too_long: 'recording is too long',
  audio_duration_too_short: 'recording is too short',
  video_duration_too_long: 'video is too long',
  video_duration_too_short: 'video is too short',
  file_download_error: 'file cannot be downloaded',
  file_too_large: 'file is too large',
  face_detection_error: 'image has no face that can be detected',
  feature_not_supported: 'combination of fields is not supported',
};

const fieldsMax = 10;

/**
 * Returns the error types and field names in FastAPI's list of invalid fields, with the reason if
 * its type is known. Omits the provider's texts, because callers must not see them.
 */
export function readInvalidFields(body: unknown): {
  isListed: boolean;
  types: string[];
  fields: string[];
} {
  const { data, success: isListed } = invalidFieldsBody.safeParse(body);
  const entries = data?.detail ?? [];
  const fields = entries.slice(0, fieldsMax).flatMap(({ loc, type }) => {
    const path = formatPath(loc ?? []);
    const reason = Object.hasOwn(reasons, type ?? '') ? reasons[type ?? ''] : undefined;
    if (path === '') return reason === undefined ? [] : [reason];
    return [reason === undefined ? path : `${path}: ${reason}`];
  });
  return { isListed, types: entries.map(({ type }) => type ?? ''), fields };
}

/** Formats the place of an error, `["body", "image_urls", 0]`, as `image_urls.0`. */
function formatPath(loc: readonly unknown[]): string {
  return loc
    .slice(loc[0] === 'body' ? 1 : 0)
    .filter(
      (part) => typeof part === 'number' || (typeof part === 'string' && /^\w{1,64}$/.test(part)),
    )
    .join('.');
}
