/** Converts thrown errors to error responses (spec §7). */
import { Readable } from 'node:stream';
import { ServiceError } from '@temporalio/client';
import { GatewayError, type ErrorCode } from '../../domain/errors.ts';
import { createSuggester } from '../../domain/field-messages.ts';
import { isDatabaseUnavailable } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context, Middleware } from '../context.ts';
import { isBodyArriving, respondBeforeBodyEnds } from '../http/connections.ts';
import { errorFormatters, getStatus, type ErrorFormat } from '../../domain/error-bodies.ts';
import { hideNumbers } from './token-rules.ts';
import { findSdkFormat } from './sdk-paths.ts';

/** Values that the response for an unknown path names: the gateway's URL, and a similar path. */
interface KnownPaths {
  baseUrl: string;
  paths: readonly string[];
}

/**
 * Creates the middleware that converts errors to responses. A response contains no details of an
 * unexpected error.
 */
export function handleErrors(logger: Logger, { baseUrl, paths }: KnownPaths): Middleware {
  const findNearest = createSuggester(paths);
  return async (ctx, next) => {
    try {
      await next();
      if (ctx.status === 404 && ctx.body === undefined) {
        throw createRouteError(ctx, { baseUrl, findNearest });
      }
    } catch (error) {
      const gatewayError = toShownError(ctx, error);
      if (gatewayError.status >= 500) {
        logger.error({ error, code: gatewayError.code }, 'request.failed');
      }
      sendError(ctx, gatewayError);
    }
  };
}

/** Maximum length of a path in an error message. */
const shownPathMax = 100;

/** Returns the error for an unknown path, or for a method that the path does not support. */
function createRouteError(
  ctx: Context,
  { baseUrl, findNearest }: { baseUrl: string; findNearest: (path: string) => string[] },
): GatewayError {
  // `ctx.matched` also contains middleware, which has no methods.
  const methods = new Set(ctx.matched?.flatMap((layer) => layer.methods));
  if (methods.size === 0) {
    const path = ctx.originalUrl.replace(/\?.*$/s, '').slice(0, shownPathMax);
    const reference = 'GET /api/v1/openapi.json lists the endpoints';
    const [similar] = findNearest(ctx.path);
    const advice = similar === undefined ? '' : ` did you mean ${similar}?`;
    if (!ctx.path.startsWith('/api/')) ctx.state.errorFormat = findSdkFormat(ctx);
    const base = describeBaseUrl(baseUrl, ctx.state.errorFormat);
    return new GatewayError(
      'NOT_FOUND',
      `${ctx.method} ${path} does not exist;${advice}${base} ${reference}.`,
    );
  }
  ctx.set('Allow', [...methods].join(', '));
  return new GatewayError('METHOD_NOT_ALLOWED');
}

/** Returns the part of the error for an unknown path that names the right base URL of an SDK. */
function describeBaseUrl(baseUrl: string, format: ErrorFormat = 'service'): string {
  if (format === 'service') return '';
  const [name, url] = format === 'anthropic' ? ['Anthropic', baseUrl] : ['OpenAI', `${baseUrl}/v1`];
  return ` the base URL of clients of ${name} is ${url};`;
}

/**
 * Rejects a method that a fixed path does not support, although a path with a parameter, whose value
 * is the same text, supports it.
 */
export function rejectOtherMethods(
  endpoints: readonly { method: string; path: string }[],
): Middleware {
  const fixed = endpoints.filter(({ path }) => !/[:*]/.test(path));
  const methodsByPath = Map.groupBy(fixed, ({ path }) => path);
  return (ctx, next) => {
    const methods = methodsByPath.get(ctx.path)?.map(({ method }) => method);
    if (methods?.includes('GET')) methods.push('HEAD');
    if (!methods || methods.includes(ctx.method)) return next();
    ctx.set('Allow', methods.join(', '));
    throw new GatewayError('METHOD_NOT_ALLOWED');
  };
}

/** Converts any thrown error to the error of the response. */
export function toGatewayError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  if (isDatabaseUnavailable(error) || error instanceof ServiceError) {
    return new GatewayError('SERVICE_UNAVAILABLE', undefined, {
      retryAfterSeconds: 2,
      cause: error,
    });
  }
  return new GatewayError('Internal server error', undefined, { cause: error });
}

/** Converts any thrown error to the error that the caller of a request sees. */
export function toShownError({ state }: Pick<Context, 'state'>, error: unknown): GatewayError {
  // The types declare `caller` on every route, but an open route has none.
  const { caller } = state as Partial<Context['state']>;
  return hideNumbers(caller, toGatewayError(error));
}

/** Returns the HTTP status of an error in the format of the request. */
export function findStatus(ctx: Context, code: ErrorCode): number {
  // The specification (§4.1) has 400 for an unknown model at its path of chat completions; below `/v1`,
  // the base URL of SDKs, it is the 404 that their programs expect.
  const isSpecified = ctx.path.startsWith('/api/v1/chat/') && !ctx.state.isSdkPath;
  const { errorFormat = 'service' } = ctx.state;
  return getStatus(code, isSpecified ? 'service' : errorFormat);
}

function sendError(ctx: Context, error: GatewayError): void {
  const { errorFormat = 'service', requestId } = ctx.state;
  ctx.status = findStatus(ctx, error.code);
  if (error.retryAfterSeconds !== undefined)
    ctx.set('Retry-After', String(error.retryAfterSeconds));
  if (error.code === 'Unauthorized') ctx.set('WWW-Authenticate', 'Bearer');
  const body = errorFormatters[errorFormat](error, requestId);
  if (error.code === 'REQUEST_TIMEOUT' || !isBodyArriving(ctx.req)) {
    ctx.body = body;
    return;
  }
  const text = JSON.stringify(body);
  ctx.type = 'json';
  ctx.body = Readable.from(respondBeforeBodyEnds(ctx.req, text), { objectMode: false });
  ctx.length = Buffer.byteLength(text);
}
