/** The HTTP application: the order of the middleware is the order of refusals. */
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
  const { logger, telemetry, access } = services;
  const limits = rateLimitsOf(config);
  const admit = {
    requests: authenticate(access, { bucket: 'requests', limit: limits.requests }),
    polls: authenticate(access, { bucket: 'polls', limit: limits.polls }),
  };
  const app = new Koa<RequestState>();
  app.use(shortPaths);
  app.use(requestLog(logger));
  app.use(securityHeaders);
  app.use(observedRequests(telemetry));
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
