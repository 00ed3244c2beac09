/** HTTP application. The order of the middleware is the order of refusals. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import helmet from 'helmet';
import Koa from 'koa';
import { publicBaseUrl } from '../activities/services.ts';
import { errorTable } from '../domain/errors.ts';
import { compose, type AppDeps } from './composition.ts';
import type { Middleware, RequestState } from './context.ts';
import { limitBytes } from './middleware/byte-limits.ts';
import { createByteBudget } from '../platform/byte-budget.ts';
import { allowOrigins } from './middleware/cors.ts';
import { errorAnswers } from './middleware/errors.ts';
import { observedRequests, requestLog } from './middleware/observed-requests.ts';
import { createDocuments } from './openapi/document.ts';
import { endpoints } from './endpoints/index.ts';
import { createRouter } from './endpoints/runner.ts';

/** Request handler of a Node.js HTTP server. */
export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Size in bytes up to which a body is accepted even if the process's budget is used up. */
const smallMax = 64 * 1024;
/** Highest number of bytes of running streams that are kept for replays. */
const keptTextBytesMax = 64 * 1024 * 1024;

/** Time after which a connection that takes no bytes is closed, in milliseconds. */
const stalledReaderMs = 30_000;

/** Paths that the error of an unknown path suggests. */
const publicPaths = [...new Set(endpoints.map(({ path }) => path))].filter(
  (path) => path.startsWith('/api/v1/') && !path.includes(':') && !path.includes('*'),
);

/** Makes the request handler of the application; the caller passes it to an HTTP server. */
export function createApp(deps: AppDeps): Handler {
  const { config } = deps;
  const services = compose(deps, createDocuments(publicBaseUrl(config), endpoints));
  const { logger, telemetry } = services;
  const app = new Koa<RequestState>();
  app.use(dropStalledReaders);
  app.use(shortPaths);
  app.use(requestLog(logger));
  app.use(securityHeaders);
  app.use(observedRequests(telemetry));
  app.use(allowOrigins(config.CORS_ORIGINS));
  app.use(errorAnswers(logger, publicPaths));
  app.use(
    limitBytes({
      body: createByteBudget({ bytesMax: config.BODY_BYTES_MAX, smallMax }),
      spool: createByteBudget({ bytesMax: config.SPOOL_BYTES_MAX, smallMax }),
      keptText: createByteBudget({ bytesMax: keptTextBytesMax, smallMax }),
    }),
  );
  if (deps.observe) app.use(deps.observe);
  app.use(createRouter(endpoints, services).routes());
  app.silent = true;
  const handle = app.callback();
  return (request, response) => void handle(request, response);
}

/** Closes the connection of a client that does not read its response. */
const dropStalledReaders: Middleware = async (ctx, next) => {
  await next();
  ctx.res.setTimeout(stalledReaderMs);
};

/**
 * Maps `/v1/…` to `/api/v1/…`, because the clients of OpenAI and Anthropic append `/v1` to a host.
 * On these paths, errors that occur before the routing have OpenAI's format, so that its client
 * shows their message.
 */
const shortPaths: Middleware = (ctx, next) => {
  if (ctx.path.startsWith('/v1/')) {
    ctx.path = `/api${ctx.path}`;
    ctx.state.errorShape = 'openai';
  }
  return next();
};

// `upgradeInsecureRequests` is off, because a development gateway without TLS must not redirect its
// own pages to https.
const setHeaders = promisify(
  helmet({ contentSecurityPolicy: { directives: { upgradeInsecureRequests: null } } }),
);

const securityHeaders: Middleware = async (ctx, next) => {
  await setHeaders(ctx.req, ctx.res);
  await next();
};

/** Responds while the process starts: 200 on GET /healthz, else 503 with Retry-After. */
export function answerStarting(request: IncomingMessage, response: ServerResponse): void {
  const isAlive = request.method === 'GET' && request.url === '/healthz';
  const { status, message } = errorTable.SERVICE_UNAVAILABLE;
  const body = isAlive ? { status: 'ok' } : { error: 'SERVICE_UNAVAILABLE', message };
  response.writeHead(isAlive ? 200 : status, {
    'Content-Type': 'application/json; charset=utf-8',
    ...(!isAlive && { 'Retry-After': '2' }),
    // The rest of an upload is not read, so the connection cannot be used again.
    Connection: 'close',
  });
  response.end(JSON.stringify(body));
}
