/**
 * What pages of other origins may read (CORS). A preflight is answered here: without a key, and without
 * being counted. No credentials of a browser are ever taken, so an origin alone opens nothing.
 */
import cors from '@koa/cors';
import type Koa from 'koa';

/** Headers of answers that a page may read beside the few that it always may. */
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
/** The longest that browsers remember a preflight for. */
const preflightAgeSeconds = 7200;

/** `origins` may use the API and upload, all of them where `*` is among them. */
export function allowOrigins(origins: readonly string[]): Koa.Middleware {
  return cors({
    exposeHeaders: [...exposedHeaders],
    maxAge: preflightAgeSeconds,
    origin({ path, headers: { origin = '' } }) {
      // Operators work elsewhere; their codec endpoint has origins of its own.
      if (origin === '' || path.startsWith('/api/admin/')) return '';
      // Whoever has the URL of a file may read it.
      if (path.startsWith('/files/') || origins.includes('*')) return '*';
      return origins.includes(origin) ? origin : '';
    },
  });
}
