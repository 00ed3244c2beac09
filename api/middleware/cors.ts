/**
 * CORS: lets web pages of other origins call the API. Preflight requests need no key and are not
 * counted. Cookies are never allowed, so a page of an allowed origin still needs an API key.
 */
import cors from '@koa/cors';
import type Koa from 'koa';

/** Response headers that a page may read in addition to the CORS-safelisted ones. */
export const exposedHeaders: readonly string[] = [
  'X-Request-Id',
  'X-Job-Id',
  'X-Ignored-Fields',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'X-Credits-Used',
  'X-Credits-Cost',
  'X-Credits-Remaining',
  'Retry-After',
  'X-Should-Retry',
  'Location',
  'Idempotent-Replayed',
  'ETag',
  'Allow',
  'WWW-Authenticate',
  'Accept-Ranges',
  'Content-Range',
  'Content-Disposition',
  'X-Content-Credentials',
];
/** Time that a browser may cache a preflight response, in seconds. */
const preflightMaxAgeSeconds = 7200;

/** Returns whether pages of an origin may call the API. */
export const isAllowedOrigin = (origins: readonly string[], origin: string): boolean =>
  origins.includes('*') || origins.includes(origin);

/**
 * Creates the middleware that allows pages of these origins to call the API. `*` allows all
 * origins.
 */
export function createCors(origins: readonly string[]): Koa.Middleware {
  return cors({
    exposeHeaders: [...exposedHeaders],
    maxAge: preflightMaxAgeSeconds,
    origin({ path, headers: { origin = '' } }) {
      // No other origin may use the operators' API; its codec endpoint sets its own CORS headers.
      if (origin === '' || path.startsWith('/api/admin/')) return '';
      // File URLs are signed, so any page that has the URL may read the file.
      if (path.startsWith('/files/') || origins.includes('*')) return '*';
      return isAllowedOrigin(origins, origin) ? origin : '';
    },
  });
}
