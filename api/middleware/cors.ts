/**
 * CORS: access of web pages of other origins. Preflight requests need no key and count toward no
 * rate limit. The browser's credentials (cookies) are never allowed, so a page of an allowed origin
 * still needs an API key.
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
  'Location',
  'Idempotent-Replayed',
  'ETag',
  'Allow',
  'WWW-Authenticate',
  'Accept-Ranges',
  'Content-Range',
  'Content-Disposition',
];
/** Longest time for which a browser caches a preflight response, in seconds. */
const preflightAgeSeconds = 7200;

/** Makes the middleware that allows these origins to use the API; `*` allows every origin. */
export function allowOrigins(origins: readonly string[]): Koa.Middleware {
  return cors({
    exposeHeaders: [...exposedHeaders],
    maxAge: preflightAgeSeconds,
    origin({ path, headers: { origin = '' } }) {
      // No other origin may use the operators' API; its codec endpoint sets its own CORS headers.
      if (origin === '' || path.startsWith('/api/admin/')) return '';
      // File URLs are signed, so every page that has a URL may read its file.
      if (path.startsWith('/files/') || origins.includes('*')) return '*';
      return origins.includes(origin) ? origin : '';
    },
  });
}
