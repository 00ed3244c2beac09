/**
 * Middleware of every gateway that tests start: each response and each error code of an operation must be in its
 * description. A difference is a 500, which fails the test; `TEST_LOG_LEVEL=error` shows the reason.
 */
import assert from 'node:assert/strict';
import { Stream } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { routeOf, type Context, type Middleware } from '../../api/context.ts';
import { operations } from '../../api/operations/index.ts';
import { ownAnswer, type Operation } from '../../api/operations/operation.ts';
import { GatewayError } from '../../domain/errors.ts';

const nameOf = ({ method, path }: { method: string; path: string }): string => `${method} ${path}`;
const byName = new Map(operations.map((operation) => [nameOf(operation), operation]));

/** Checks each response against its schema in the OpenAPI document. */
export const checkResponses: Middleware = async (ctx, next) => {
  try {
    await next();
  } catch (error) {
    const operation = operationOf(ctx);
    if (operation && operation.scope !== 'open') checkCode(operation, error);
    throw error;
  }
  const operation = operationOf(ctx);
  if (operation) checkBody(operation, ctx);
};

function operationOf(ctx: Context): Operation | undefined {
  const method = ctx.method === 'HEAD' ? 'GET' : ctx.method;
  return byName.get(nameOf({ method, path: routeOf(ctx) }));
}

function checkCode(operation: Operation, error: unknown): void {
  const code = error instanceof GatewayError ? error.code : 'Internal server error';
  const isDescribed = operation.errors.includes(code) || code === 'CANCELED';
  assert(isDescribed, `${nameOf(operation)} does not describe the error ${code}`);
}

function checkBody(operation: Operation, ctx: Context): void {
  const { answers, answer } = operation;
  if (ctx.respond === false) return;
  const described = answers[ctx.status];
  const name = `${nameOf(operation)} ${ctx.status}`;
  assert(described, `${name} is not described`);
  const schema = described.schema ?? answer;
  const isJson = ctx.response.is('json') === 'json';
  if (schema === ownAnswer || ctx.body instanceof Stream || !isJson) return;
  const sent: unknown = JSON.parse(textOf(ctx));
  const { data, error } = schema.safeParse(sent);
  assert(!error, `${name} is not as described: ${error?.message}`);
  assert(isDeepStrictEqual(data, sent), `${name} holds undescribed fields: ${textOf(ctx)}`);
}

function textOf({ body, response }: Context): string {
  if (!Buffer.isBuffer(body)) return typeof body === 'string' ? body : JSON.stringify(body);
  const isGzip = response.get('Content-Encoding') === 'gzip';
  return (isGzip ? gunzipSync(body) : body).toString();
}
