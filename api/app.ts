/** The HTTP application: the order of the middleware is the order of refusals. */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import Koa, { type Middleware } from 'koa';
import helmet from 'helmet';
import { publicBaseUrl } from '../activities/services.ts';
import { compose, rateLimitsOf, type AppDeps } from './composition.ts';
import { createDirectRoutes } from './direct-routes.ts';
import type { HeaderList } from './exchange.ts';
import type { Handler } from './starting.ts';
import type { RequestState } from './context.ts';
import { authenticate } from './middleware/authenticate.ts';
import { limitBodyBytes } from './middleware/body-bytes.ts';
import { errorAnswers } from './middleware/error-answers.ts';
import { observedRequests } from './middleware/observed-requests.ts';
import { requestLog } from './middleware/request-log.ts';
import { createDocuments } from './openapi/document.ts';
import { operations } from './operations/index.ts';
import { createRouter } from './operations/runner.ts';

/** Makes the application; it listens nowhere yet. */
export function createApp(deps: AppDeps): Handler {
  const { config, checkAnswers } = deps;
  const services = compose(deps, createDocuments(publicBaseUrl(config), operations));
  const { logger, telemetry, access, chatRoutes } = services;
  const headers = securityHeaders();
  const outermost = requestLog(logger);
  const bodyBytes = limitBodyBytes({
    processMax: config.BODY_BYTES_MAX,
    keyMax: config.BODY_BYTES_PER_KEY_MAX,
  });
  const steps = [...observedRequests(telemetry), errorAnswers(logger), bodyBytes];
  const limits = rateLimitsOf(config);
  const admit = {
    requests: authenticate(access, { bucket: 'requests', limit: limits.requests }),
    polls: authenticate(access, { bucket: 'polls', limit: limits.polls }),
  };
  const router = createRouter(operations, { services, admit, checkAnswers });
  const app = new Koa<RequestState>();
  for (const step of [outermost, ...steps]) app.use(step);
  app.use(withHeaders(headers));
  app.use(router.routes());
  app.silent = true;
  const answer = app.callback();
  const answerDirectly = createDirectRoutes({
    routes: chatRoutes,
    outermost,
    steps: [...steps, admit.requests],
    headers,
  });
  return (request, response) => {
    if (!answerDirectly(request, response)) void answer(request, response);
  };
}

/**
 * Helmet's headers: they are the same for every answer, so they are asked for once. A gateway behind
 * plain http (development) must not send its own pages to https.
 */
function securityHeaders(): HeaderList {
  const ask = helmet({ contentSecurityPolicy: { directives: { upgradeInsecureRequests: null } } });
  const request = new IncomingMessage(new Socket());
  const response = new ServerResponse(request);
  ask(request, response, () => {});
  return response.getHeaderNames().flatMap((name) => [name, String(response.getHeader(name))]);
}

function withHeaders(headers: HeaderList): Middleware<RequestState> {
  return (ctx, next) => {
    for (let index = 0; index < headers.length; index += 2) {
      ctx.res.setHeader(headers[index] ?? '', headers[index + 1] ?? '');
    }
    return next();
  };
}
