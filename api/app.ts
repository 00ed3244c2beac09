/** Creates the Koa application: its middleware, in order, and its endpoints. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import helmet from 'helmet';
import Koa from 'koa';
import { publicBaseUrl } from '../process/services.ts';
import { errorTable } from '../domain/errors.ts';
import { compose, type AppDeps } from './composition.ts';
import type { Middleware, RequestState } from './context.ts';
import { shareBytes } from './middleware/request-shares.ts';
import { createCors } from './middleware/cors.ts';
import { handleErrors, rejectOtherMethods } from './middleware/error-handler.ts';
import { observeRequests, logRequests } from './middleware/request-telemetry.ts';
import { createDocuments } from './openapi/document.ts';
import { endpoints } from './endpoints/index.ts';
import { createRouter } from './endpoints/runner.ts';

/** Request handler of a Node.js HTTP server. */
export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Paths that the error message for an unknown path may suggest. */
const suggestedPaths = [...new Set(endpoints.map(({ path }) => path))].filter(
  (path) => path.startsWith('/api/v1/') && !path.includes(':') && !path.includes('*'),
);

/** Creates the request handler of the application for an HTTP server. */
export function createApp(deps: AppDeps): RequestHandler {
  const { config } = deps;
  const services = compose(deps, createDocuments(publicBaseUrl(config), endpoints));
  const { logger, telemetry } = services;
  const app = new Koa<RequestState>();
  app.use(expandShortPaths);
  app.use(logRequests(logger));
  app.use(securityHeaders);
  app.use(observeRequests(telemetry));
  app.use(createCors(config.CORS_ORIGINS));
  app.use(handleErrors(logger, suggestedPaths));
  app.use(shareBytes(services.shares.bytes));
  if (deps.observe) app.use(deps.observe);
  app.use(rejectOtherMethods(endpoints));
  app.use(createRouter(endpoints, services).routes());
  app.silent = true;
  const handle = app.callback();
  return (request, response) => void handle(request, response);
}

/**
 * Maps `/v1/…` to `/api/v1/…`, because OpenAI's and Anthropic's clients append `/v1` to the base
 * URL. Errors on these paths that occur before routing have OpenAI's format, so that OpenAI's
 * client shows their messages.
 */
const expandShortPaths: Middleware = (ctx, next) => {
  if (ctx.path.startsWith('/v1/')) {
    ctx.path = `/api${ctx.path}`;
    ctx.state.errorFormat = 'openai';
  }
  return next();
};

// `upgradeInsecureRequests` is off, because a development gateway without TLS must not redirect its
// pages to https.
const setHeaders = promisify(
  helmet({ contentSecurityPolicy: { directives: { upgradeInsecureRequests: null } } }),
);

const securityHeaders: Middleware = async (ctx, next) => {
  await setHeaders(ctx.req, ctx.res);
  await next();
};

/** Responds while the process starts: 200 to GET /healthz, otherwise 503 with Retry-After. */
export function respondWhileStarting(request: IncomingMessage, response: ServerResponse): void {
  const isHealthCheck = request.method === 'GET' && request.url === '/healthz';
  const { status, message } = errorTable.SERVICE_UNAVAILABLE;
  const body = isHealthCheck ? { status: 'ok' } : { error: 'SERVICE_UNAVAILABLE', message };
  response.writeHead(isHealthCheck ? 200 : status, {
    'Content-Type': 'application/json; charset=utf-8',
    ...(!isHealthCheck && { 'Retry-After': '2' }),
    // The body of the request is not read, so the connection cannot be used for another request.
    Connection: 'close',
  });
  response.end(JSON.stringify(body));
}
