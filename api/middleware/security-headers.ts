/** Helmet's headers, on every answer. */
import helmet from 'helmet';
import type { Middleware } from '../context.ts';

// A gateway behind plain http (development) must not send its own pages to https.
const setHeaders = helmet({
  contentSecurityPolicy: { directives: { upgradeInsecureRequests: null } },
});

/** See the file's head. */
export const securityHeaders: Middleware = (ctx, next) =>
  new Promise((resolve, reject) => {
    setHeaders(ctx.req, ctx.res, (error) => (error ? reject(error) : resolve(next())));
  });
