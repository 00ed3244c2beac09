/**
 * Middleware of every gateway that tests start: each response and each error code of an endpoint
 * must be in its description. A difference is a 500, which fails the test. The cause of each 500 is
 * printed.
 */
import assert from 'node:assert/strict';
import { Stream } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { findRoutePattern, type Context, type Middleware } from '../../api/context.ts';
import { endpoints } from '../../api/endpoints/index.ts';
import { rawResponse, type Endpoint } from '../../api/endpoints/endpoint.ts';
import { GatewayError } from '../../domain/errors.ts';

const formatRoute = ({ method, path }: { method: string; path: string }): string =>
  `${method} ${path}`;
const byName = new Map(endpoints.map((endpoint) => [formatRoute(endpoint), endpoint]));

/** Checks each response against its schema in the OpenAPI document. */
export const checkResponses: Middleware = async (ctx, next) => {
  try {
    await check(ctx, next);
  } catch (error) {
    if (!(error instanceof GatewayError)) console.error(`${ctx.method} ${ctx.path}`, error);
    throw error;
  }
};

async function check(ctx: Context, next: () => Promise<unknown>): Promise<void> {
  try {
    await next();
  } catch (error) {
    const endpoint = findEndpoint(ctx);
    if (endpoint && endpoint.scope !== 'open') checkCode(endpoint, error);
    throw error;
  }
  const endpoint = findEndpoint(ctx);
  if (endpoint) checkBody(endpoint, ctx);
}

function findEndpoint(ctx: Context): Endpoint | undefined {
  const method = ctx.method === 'HEAD' ? 'GET' : ctx.method;
  return byName.get(formatRoute({ method, path: findRoutePattern(ctx) }));
}

function checkCode(endpoint: Endpoint, error: unknown): void {
  const code = error instanceof GatewayError ? error.code : 'Internal server error';
  const isDescribed = endpoint.errors.includes(code) || code === 'CANCELED';
  assert(isDescribed, `${formatRoute(endpoint)} does not describe the error ${code}`);
}

function checkBody(endpoint: Endpoint, ctx: Context): void {
  const { responses, response } = endpoint;
  if (ctx.respond === false) return;
  const described = responses[ctx.status];
  const name = `${formatRoute(endpoint)} ${ctx.status}`;
  assert(described, `${name} is not described`);
  const schema = described.schema ?? response;
  const isJson = ctx.response.is('json') === 'json';
  if (schema === rawResponse || ctx.body instanceof Stream || !isJson) return;
  const sent: unknown = JSON.parse(readText(ctx));
  const { data, error } = schema.safeParse(sent);
  assert(!error, `${name} is not as described: ${error?.message}`);
  assert(isDeepStrictEqual(data, sent), `${name} holds undescribed fields: ${readText(ctx)}`);
}

function readText({ body, response }: Context): string {
  if (!Buffer.isBuffer(body)) return typeof body === 'string' ? body : JSON.stringify(body);
  const isGzip = response.get('Content-Encoding') === 'gzip';
  return (isGzip ? gunzipSync(body) : body).toString();
}
