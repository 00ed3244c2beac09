/** The HTTP application: the order of the middleware is the order of refusals. */
import { createHmac } from 'node:crypto';
import Koa from 'koa';
import { publicBaseUrl } from '../activities/services.ts';
import { compose, rateLimitsOf, type AppDeps } from './composition.ts';
import type { RequestState } from './context.ts';
import { authenticate } from './middleware/authenticate.ts';
import { limitBodyBytes } from './middleware/body-bytes.ts';
import { allowOrigins } from './middleware/cors.ts';
import { errorAnswers } from './middleware/error-answers.ts';
import { observedRequests } from './middleware/observed-requests.ts';
import { requestLog } from './middleware/request-log.ts';
import { securityHeaders } from './middleware/security-headers.ts';
import { shortPaths } from './middleware/short-paths.ts';
import { createDocuments } from './openapi/document.ts';
import { operations } from './operations/index.ts';
import { createRouter } from './operations/runner.ts';
import type { Handler } from './starting.ts';

/** Makes the application; it listens nowhere yet. */
export function createApp(deps: AppDeps): Handler {
  const { config, checkAnswers } = deps;
  const services = compose(deps, createDocuments(publicBaseUrl(config), operations));
  const { logger, telemetry } = services;
  const limits = rateLimitsOf(config);
  const admit = {
    requests: authenticate(services, { bucket: 'requests', limit: limits.requests }),
    polls: authenticate(services, { bucket: 'polls', limit: limits.polls }),
  };
  const app = new Koa<RequestState>();
  // Signs the cookies of sessions.
  app.keys = [createHmac('sha256', config.KEY_PEPPER).update('console-session').digest('hex')];
  app.use(shortPaths);
  app.use(requestLog(logger));
  app.use(securityHeaders);
  for (const observed of observedRequests(telemetry)) app.use(observed);
  app.use(allowOrigins(config.CORS_ORIGINS));
  app.use(errorAnswers(logger));
  app.use(
    limitBodyBytes({
      processMax: config.BODY_BYTES_MAX,
      keyMax: config.BODY_BYTES_PER_KEY_MAX,
    }),
  );
  app.use(createRouter(operations, { services, admit, checkAnswers }).routes());
  app.silent = true;
  const answer = app.callback();
  return (request, response) => void answer(request, response);
}
