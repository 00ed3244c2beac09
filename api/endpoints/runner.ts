/** Runs endpoints: checks access, parses the request, calls `handle` and sends the response. */
import { Stream } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import Router, { type RouterMiddleware } from '@koa/router';
import type { z } from 'zod';
import { errorTable, fieldError, GatewayError, assert } from '../../domain/errors.ts';
import { isStorable } from '../../domain/json.ts';
import type { Composition } from '../composition.ts';
import type { Context, RequestState } from '../context.ts';
import type { Operator } from '../../identity/operators.ts';
import { findRequestKind, recordRejections } from '../middleware/record-rejections.ts';
import { authenticate, parseBearerKey } from '../middleware/authenticate.ts';
import {
  findEndUser,
  hideAccount,
  mayReadIds,
  throwIfNotForTokens,
} from '../middleware/token-rules.ts';
import { authorize, throwIfViewer } from '../../identity/access.ts';
import { readJson } from '../http/json-body.ts';
import { parseBody } from '../http/ignored-fields.ts';
import { parseWith } from '../../domain/parsing.ts';
import { collectMetadata } from '../../domain/metadata.ts';
import { isBodyOptional } from './description.ts';
import type { Endpoint } from './endpoint.ts';

type Middleware = RouterMiddleware<RequestState>;

/** Creates the router of all endpoints. Paths are case-sensitive. */
export function createRouter(
  endpoints: readonly Endpoint[],
  services: Composition,
): Router<RequestState> {
  const router = new Router<RequestState>({ sensitive: true });
  for (const endpoint of endpoints) {
    const { path, method } = endpoint;
    const middlewares = [
      ...listAccessChecks(endpoint, services),
      holdShares(endpoint, services),
      createHandler(endpoint, services),
    ];
    // Chat responses are not compressed, so that each token is sent immediately.
    if (endpoint.scope !== 'chat') middlewares.unshift(encodeJson);
    const kind = findRequestKind(endpoint);
    if (kind) middlewares.unshift(recordRejections(endpoint, kind, services));
    middlewares.unshift(setErrorFormat(endpoint));
    router.register(path, [method], middlewares);
  }
  return router;
}

/**
 * Sets the error format of the endpoint, if it has its own. Must run before the access checks, which
 * may reject the request.
 */
function setErrorFormat({ errorFormat }: Endpoint): Middleware {
  return (ctx, next) => {
    if (errorFormat) ctx.state.errorFormat = errorFormat;
    return next();
  };
}

/** Returns the middleware that checks access, in the order of its errors: 401, 429, 403. */
function listAccessChecks(endpoint: Endpoint, services: Composition): Middleware[] {
  const { scope, viewerError, allowsTokens = false } = endpoint;
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
    throwIfNotForTokens(ctx.state.caller, allowsTokens);
    authorize(ctx.state.caller, scope);
    if (viewerError !== undefined) throwIfViewer(ctx.state.caller, viewerError);
    return next();
  };
  return [authenticate(services, endpoint), hideAccount, checkScope];
}

/**
 * Finds the operator of a request by its key, or by its console session if the request has no key.
 */
async function authenticateOperator(
  ctx: Context,
  { findOperator, operatorSessions }: Composition,
): Promise<Operator | null> {
  if (ctx.headers.authorization !== undefined)
    return findOperator.findByKey(parseBearerKey(ctx.req));
  const session = await operatorSessions.admit(ctx);
  return session ? findOperator.findBySession(session) : null;
}

/**
 * Takes a place for the request until its response has closed, and for a read of an organization or
 * an address a turn until its handler has ended or begins to wait.
 */
function holdShares({ method, scope }: Endpoint, { shares }: Composition): Middleware {
  const takesTurn = method === 'GET' && scope !== 'admin';
  return async (ctx, next) => {
    shares.takePlace(ctx);
    if (takesTurn) ctx.state.endTurn = await shares.takeTurn(ctx);
    try {
      await next();
    } finally {
      ctx.state.endTurn?.();
    }
  };
}

function createHandler(endpoint: Endpoint, services: Composition): Middleware {
  const { request, responses } = endpoint;
  const [status, ...otherStatuses] = Object.keys(responses).map(Number);
  return async (ctx) => {
    const call = {
      ctx,
      caller: ctx.state.caller,
      operator: ctx.state.operator,
      requestId: ctx.state.requestId,
      query: request.query && parseQuery(ctx, request.query),
      body: await readParsedBody(ctx, endpoint),
      params: parseParams(ctx.params, endpoint),
    };
    if (endpoint.allowsTokens && !(await mayReadIds(call.caller, call.params, services)))
      throw createNotFoundError(endpoint);
    const responseBody = await endpoint.handle(call, services);
    if (responseBody !== undefined) {
      if (status !== undefined && otherStatuses.length === 0) ctx.status = status;
      ctx.body = responseBody;
    }
  };
}

/** Parses the query parameters. @throws GatewayError INVALID_REQUEST */
function parseQuery(ctx: Context, schema: z.ZodObject): Record<string, unknown> {
  // The spread creates a plain object, because Koa's query object has no prototype.
  const query = { ...ctx.query };
  const unstorable = Object.keys(query).find((name) => !isStorable(query[name]));
  if (unstorable !== undefined) {
    throw fieldError('INVALID_REQUEST', unstorable, 'must not contain NUL characters');
  }
  const parsed = parseWith(schema, collectMetadata(query), 'query');
  // Lists that can be filtered by end user show a browser token only those of its own.
  if (!('endUser' in schema.shape) || !ctx.state.caller) return parsed;
  const endUser = parsed['endUser'];
  const named = typeof endUser === 'string' ? endUser : undefined;
  return { ...parsed, endUser: findEndUser(ctx.state.caller, 'endUser', named) };
}

/** Default maximum body size of endpoints that need no API key, in bytes. */
const openScopeBodyBytesMax = 1024;

async function readParsedBody(ctx: Context, { scope, request }: Endpoint): Promise<unknown> {
  const { body, bodyBytesMax, bodyValuesMax, repair, exactFields } = request;
  if (!body) return undefined;
  const hasBody = (ctx.request.length ?? 0) > 0 || ctx.get('transfer-encoding') !== '';
  const defaultBytesMax = scope === 'open' ? openScopeBodyBytesMax : undefined;
  const limits = { bytesMax: bodyBytesMax ?? defaultBytesMax, valuesMax: bodyValuesMax };
  const json =
    hasBody || !isBodyOptional(request)
      ? await readJson(ctx, { ...limits, repair, exactFields })
      : {};
  const parsedBody = parseBody(ctx, { schema: body, value: json });
  return scope === 'admin' ? setActor(parsedBody, ctx.state.operator) : parsedBody;
}

/**
 * Sets `actor` in the body of an operator's request to the name of the key's operator. With
 * ADMIN_API_KEY, the request must contain `actor`.
 * @throws GatewayError INVALID_REQUEST if it does not
 */
function setActor(body: unknown, { name }: Operator): unknown {
  assert(
    typeof body === 'object' && body !== null && 'actor' in body,
    'the body of an operator request has no actor',
  );
  if (name !== null) return { ...body, actor: name };
  if (body.actor === '') {
    throw fieldError('INVALID_REQUEST', 'actor', 'is required with ADMIN_API_KEY');
  }
  return body;
}

/**
 * Parses the path parameters. A malformed id is rejected like an unknown id, without a database
 * query.
 * @throws GatewayError with the first error code of the endpoint that has status 404
 */
function parseParams(
  params: Record<string, string>,
  { request, errors }: Endpoint,
): Record<string, unknown> {
  if (!request.params) return {};
  const parsed = request.params.safeParse(params);
  if (parsed.success) return parsed.data;
  throw createNotFoundError({ errors }, parsed.error.issues[0]?.message);
}

/** Creates the error for an id that the caller may not see, as for an unknown one. */
function createNotFoundError({ errors }: Pick<Endpoint, 'errors'>, message?: string): GatewayError {
  const notFoundCode = errors.find((code) => errorTable[code].status === 404);
  return new GatewayError(notFoundCode ?? 'NOT_FOUND', message);
}

/** Minimum size in bytes of a body to compress. Smaller bodies fit into one network packet. */
const compressBytesMin = 1024;
const compress = promisify(gzip);

/** Encodes JSON responses, and compresses long ones in the thread pool. */
const encodeJson: Middleware = async (ctx, next) => {
  await next();
  const { body } = ctx;
  const isJson = ctx.response.is('json') === 'json';
  // Koa sends streams and responses of the MCP transport itself.
  const isSent = body == null || body instanceof Stream || body instanceof Response;
  if (ctx.respond === false || !isJson || isSent) return;
  if (ctx.state.isConstant || ctx.method === 'HEAD') return;
  ctx.vary('Accept-Encoding');
  const isSerialized = typeof body === 'string' || Buffer.isBuffer(body);
  const text = isSerialized ? body.toString() : JSON.stringify(body);
  if (text.length < compressBytesMin || ctx.acceptsEncodings('gzip', 'identity') !== 'gzip') {
    ctx.body = text;
    return;
  }
  ctx.body = await compress(text);
  ctx.set('Content-Encoding', 'gzip');
};
