/** Creates the Koa application: its middleware, in order, and its endpoints. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import helmet from 'helmet';
import Koa from 'koa';
import { publicBaseUrl } from '../process/services.ts';
import { errorFormatters } from '../domain/error-bodies.ts';
import { GatewayError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { compose, type AppDeps } from './composition.ts';
import type { Middleware, RequestState } from './context.ts';
import { shareBytes } from './middleware/request-shares.ts';
import { createCors } from './middleware/cors.ts';
import { handleErrors, rejectOtherMethods } from './middleware/error-handler.ts';
import { observeRequests, logRequests } from './middleware/request-telemetry.ts';
import { findSdkFormat, resolveSdkPaths } from './middleware/sdk-paths.ts';
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
  const baseUrl = publicBaseUrl(config);
  const services = compose(deps);
  const { logger, telemetry } = services;
  const app = new Koa<RequestState>();
  app.use(resolveSdkPaths(endpoints));
  app.use(logRequests(logger));
  app.use(securityHeaders);
  app.use(observeRequests(telemetry));
  app.use(createCors(config.CORS_ORIGINS));
  app.use(handleErrors(logger, { baseUrl, paths: suggestedPaths }));
  app.use(shareBytes(services.shares.bytes));
  if (deps.observe) app.use(deps.observe);
  app.use(rejectOtherMethods(endpoints));
  app.use(createRouter(endpoints, services).routes());
  app.silent = true;
  const handle = app.callback();
  return (request, response) => void handle(request, response);
}

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
  const { method, url = '', headers } = request;
  const isHealthCheck = method === 'GET' && url === '/healthz';
  const error = new GatewayError('SERVICE_UNAVAILABLE');
  const format = url.startsWith('/v1/') ? findSdkFormat({ headers, path: url }) : 'service';
  const body = isHealthCheck ? { status: 'ok' } : errorFormatters[format](error, newId('request'));
  response.writeHead(isHealthCheck ? 200 : error.status, {
    'Content-Type': 'application/json; charset=utf-8',
    ...(!isHealthCheck && { 'Retry-After': '2' }),
    // The body of the request is not read, so the connection cannot be used for another request.
    Connection: 'close',
  });
  response.end(JSON.stringify(body));
}
