/**
 * Milliseconds of a `Retry-After` header: seconds or an HTTP date (RFC 9110 §10.2.3); undefined when
 * the header is absent or makes no sense. Never more than an hour.
 */
export function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  const word = Array.isArray(header) ? header[0] : header;
  if (word === undefined) return undefined;
  const waitMs = /^\d+$/.test(word.trim()) ? Number(word) * 1000 : Date.parse(word) - Date.now();
  if (!Number.isFinite(waitMs)) return undefined;
  return Math.min(Math.max(waitMs, 0), 3_600_000);
}
