/** Runs endpoints: checks the access, parses the request, calls `handle`, sends the response. */
import { Stream } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import Router, { type RouterMiddleware } from '@koa/router';
import { errorTable, fieldError, GatewayError, assert } from '../../domain/errors.ts';
import type { Composition } from '../composition.ts';
import type { Context, RequestState } from '../context.ts';
import type { Operator } from '../identity/operators.ts';
import { authenticate, authorize, bearerKey, refuseViewer } from '../middleware/authenticate.ts';
import { readJson } from '../http/body.ts';
import { ignoredFields } from '../http/ignored-fields.ts';
import { parseWith } from '../http/parsing.ts';
import { foldMetadata } from '../http/metadata.ts';
import type { Endpoint } from './endpoint.ts';

type Middleware = RouterMiddleware<RequestState>;

/** Makes the router of all endpoints. Paths are matched exactly and case-sensitively. */
export function createRouter(
  endpoints: readonly Endpoint[],
  services: Composition,
): Router<RequestState> {
  const router = new Router<RequestState>({ sensitive: true });
  for (const endpoint of endpoints) {
    const { path, method } = endpoint;
    const steps = [...makeAccessChecks(endpoint, services), run(endpoint, services)];
    // Responses of chats are not compressed, so that each token is sent at once.
    if (endpoint.scope !== 'chat') steps.unshift(gzipResponses);
    steps.unshift(setErrorShape(endpoint));
    router.register(path, [method], steps);
  }
  return router;
}

/** Sets the error format of the endpoint, before an access check rejects the request. */
function setErrorShape({ errorShape = 'service' }: Endpoint): Middleware {
  return (ctx, next) => {
    ctx.state.errorShape = errorShape;
    return next();
  };
}

/** Returns the access checks of an endpoint, in the order of the design (§5): 401, 429, 403. */
function makeAccessChecks(endpoint: Endpoint, services: Composition): Middleware[] {
  const { scope, refusesViewers } = endpoint;
  if (scope === 'open') return [];
  if (scope === 'admin') {
    return [
      async (ctx, next) => {
        const operator = await authenticateOperator(ctx, services);
        if (!operator) throw new GatewayError('Unauthorized');
        ctx.state.operator = operator;
        return next();
      },
    ];
  }
  const checkScope: Middleware = (ctx, next) => {
    authorize(ctx.state.caller, scope);
    if (refusesViewers !== undefined) refuseViewer(ctx.state.caller, refusesViewers);
    return next();
  };
  return [authenticate(services, endpoint), checkScope];
}

/** Finds the operator of a request. A wrong key is not replaced by the session. */
async function authenticateOperator(
  ctx: Context,
  { findOperator, operatorSessions }: Composition,
): Promise<Operator | null> {
  if (ctx.headers.authorization !== undefined) return findOperator.byKey(bearerKey(ctx.req));
  const session = await operatorSessions.admit(ctx);
  return session ? findOperator.bySession(session) : null;
}

function run(endpoint: Endpoint, services: Composition): Middleware {
  const { request, answers } = endpoint;
  const [status, ...others] = Object.keys(answers).map(Number);
  return async (ctx) => {
    const call = {
      ctx,
      caller: ctx.state.caller,
      operator: ctx.state.operator,
      requestId: ctx.state.requestId,
      // The spread gives the query a prototype, which Koa's parsed query does not have.
      query: request.query && parseWith(request.query, foldMetadata({ ...ctx.query }), 'query'),
      body: await readParsedBody(ctx, endpoint),
      params: parseParams(ctx.params, endpoint),
    };
    const answer = await endpoint.handle(call, services);
    if (answer !== undefined) {
      if (status !== undefined && others.length === 0) ctx.status = status;
      ctx.body = answer;
    }
  };
}

/** Size limit of a body on a route without a key, in bytes. */
const openBodyBytesMax = 1024;

async function readParsedBody(ctx: Context, { scope, request }: Endpoint): Promise<unknown> {
  const { body, bodyIsOptional, bodyBytesMax } = request;
  if (!body) return undefined;
  const hasBody = (ctx.request.length ?? 0) > 0 || ctx.get('transfer-encoding') !== '';
  if (bodyIsOptional && !hasBody) return parseWith(body, {});
  const presetBytesMax = scope === 'open' ? openBodyBytesMax : undefined;
  const json = await readJson(ctx, bodyBytesMax ?? presetBytesMax);
  const parsed = parseWith(body, json);
  const ignored = ignoredFields(body, json);
  if (ignored.length > 0) ctx.set('X-Ignored-Fields', ignored.join(', '));
  return scope === 'admin' ? withActor(parsed, ctx.state.operator) : parsed;
}

/**
 * Sets `actor` in the body of a write to the name of the operator's key. With the admin key the
 * request must name the actor.
 * @throws GatewayError INVALID_REQUEST
 */
function withActor(body: unknown, { name }: Operator): unknown {
  assert(
    typeof body === 'object' && body !== null && 'actor' in body,
    'the body of a write has an actor',
  );
  if (name !== null) return { ...body, actor: name };
  if (body.actor === '') {
    throw fieldError('INVALID_REQUEST', 'actor', 'is required with the admin key');
  }
  return body;
}

/**
 * Parses the path parameters. A malformed id is rejected like an unknown id, before a query to the
 * database.
 * @throws GatewayError the first 404 of `errors`
 */
function parseParams(
  params: Record<string, string>,
  { request, errors }: Endpoint,
): Record<string, unknown> {
  if (!request.params) return {};
  const parsed = request.params.safeParse(params);
  if (parsed.success) return parsed.data;
  const unknown = errors.find((code) => errorTable[code].status === 404);
  throw new GatewayError(unknown ?? 'NOT_FOUND', parsed.error.issues[0]?.message);
}

/** Shortest body that is compressed, in bytes: a shorter one fits into one packet uncompressed. */
const bytesMin = 1024;
const compress = promisify(gzip);

/** Compresses JSON responses off the event loop; streams and short bodies stay as they are. */
const gzipResponses: Middleware = async (ctx, next) => {
  await next();
  const { body } = ctx;
  const isJson = ctx.response.is('json') === 'json';
  if (ctx.respond === false || !isJson || body == null || body instanceof Stream) return;
  ctx.vary('Accept-Encoding');
  if (ctx.method === 'HEAD' || ctx.acceptsEncodings('gzip', 'identity') !== 'gzip') return;
  const bytes = Buffer.isBuffer(body)
    ? body
    : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  if (bytes.length < bytesMin) return;
  ctx.body = await compress(bytes);
  ctx.set('Content-Encoding', 'gzip');
};
