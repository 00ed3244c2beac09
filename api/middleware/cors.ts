/**
 * Permissions of pages of other origins (CORS). A preflight request needs no key and does not count
 * toward the rate limit. Browser credentials are never accepted from other origins.
 */
import cors from '@koa/cors';
import type Koa from 'koa';

/** Response headers that a page may read in addition to the default ones. */
export const exposedHeaders: readonly string[] = [
  'X-Request-Id',
  'X-Job-Id',
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
/** Longest time for which browsers cache a preflight response. */
const preflightAgeSeconds = 7200;

/** Makes the middleware; pages of `origins` may use the API and upload files, `*`: all pages. */
export function allowOrigins(origins: readonly string[]): Koa.Middleware {
  return cors({
    exposeHeaders: [...exposedHeaders],
    maxAge: preflightAgeSeconds,
    origin({ path, headers: { origin = '' } }) {
      // The operators' API allows no other origins; its codec endpoint has its own list.
      if (origin === '' || path.startsWith('/api/admin/')) return '';
      // The URL of a file is its only credential, so any page may read it.
      if (path.startsWith('/files/') || origins.includes('*')) return '*';
      return origins.includes(origin) ? origin : '';
    },
  });
}
