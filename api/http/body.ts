/** Request bodies: reads them within their size and time limits, and parses them as JSON. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { setImmediate as serveOthers } from 'node:timers/promises';
import { GatewayError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import { createFairLimiter } from '../../platform/fair-limiter.ts';
import type { Context } from '../context.ts';
import { arrivingBytes } from './arrival.ts';
import { holdBytes, findByteOwner } from '../middleware/byte-limits.ts';
import { jsonErrorPlace } from './json-error.ts';
import { JsonMeter, invalidBody } from './json-meter.ts';

/** Default size limit of a JSON body, in bytes. */
const jsonBytesMax = 1024 * 1024;
/** Size in bytes above which a body is parsed in steps, between which others are served. */
const quickBytesMax = 64 * 1024;

/**
 * Reads the raw body of at most `bytesMax` bytes; `count` receives each chunk as it arrives, and
 * may throw to reject the request.
 * @throws GatewayError PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, REQUEST_TIMEOUT if the body
 * arrives too slowly, 429 or SERVICE_UNAVAILABLE if too many bytes are held, and errors of `count`
 */
export async function readBody(
  ctx: Context,
  bytesMax: number,
  count?: (chunk: Buffer) => void,
): Promise<Buffer> {
  const encoding = ctx.headers['content-encoding'];
  if (encoding && encoding !== 'identity') {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Compressed request bodies are not accepted.');
  }
  const checkSize = (size: number): void => {
    if (size <= bytesMax) return;
    throw new GatewayError('PAYLOAD_TOO_LARGE', `The body has more than ${bytesMax} bytes.`);
  };
  try {
    checkSize(Number(ctx.headers['content-length'] ?? 0));
    return await collect(ctx.req, (chunk, size) => {
      checkSize(size);
      holdBytes(ctx, { kind: 'body', bytes: chunk.length });
      count?.(chunk);
    });
  } catch (error) {
    // The bytes that were read are dropped.
    ctx.state.releaseBytes('body');
    // The rest of the body is not read, so the connection cannot be used again. If the client
    // should retry, the rest is read first: many clients see the response only after they have sent
    // everything.
    const isRetryable = error instanceof GatewayError && error.retryAfterSeconds !== undefined;
    if (!isRetryable) ctx.set('Connection', 'close');
    throw error;
  }
}

/** Collects the body; `check` receives each chunk and the size so far, and may throw. */
async function collect(
  request: IncomingMessage,
  check: (chunk: Buffer, size: number) => void,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of arrivingBytes(request)) {
      size += chunk.length;
      check(chunk, size);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch (error) {
    if (error instanceof GatewayError || request.complete) throw error;
    throw new GatewayError('CANCELED', 'The caller closed the connection.');
  }
}

const json = /^\s*(?:application\/json|[\w!#$&^-]+\/[\w!#$&^.+-]+\+json)\s*(?:;|$)/i;

/** Returns whether the request has a body with a JSON content type. */
function isJson(headers: IncomingHttpHeaders): boolean {
  const { 'content-type': type = '', 'content-length': length } = headers;
  if (length === undefined && headers['transfer-encoding'] === undefined) return false;
  return type === 'application/json' || json.test(type);
}

/** Reads a JSON object. @throws GatewayError INVALID_REQUEST, and the errors of `readBody` */
export async function readJson(
  ctx: Context,
  bytesMax = jsonBytesMax,
): Promise<Record<string, unknown>> {
  if (!isJson(ctx.headers)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as application/json.');
  }
  const meter = new JsonMeter();
  const bytes = await readBody(ctx, bytesMax, (chunk) => meter.count(chunk));
  if (bytes.length <= quickBytesMax) return requireStorable(parseObject(decode(bytes)));
  const owner = findByteOwner(ctx);
  const text = await runInTurn(owner, () => decode(bytes));
  const value = await runInTurn(owner, () => parseObject(text));
  await runInTurn(owner, () => requireStorable(value));
  await serveOthers();
  return value;
}

const turns = createFairLimiter(1);
/** Longest wait for the parsing of a large body, in milliseconds. */
const turnWaitMs = 60_000;

/**
 * Runs the parsing steps of large bodies one at a time, and serves other requests between two
 * steps. Owners take turns.
 * @throws GatewayError SERVICE_UNAVAILABLE
 */
async function runInTurn<Result>(owner: string, run: () => Result): Promise<Result> {
  const leave = await turns.enter(owner, turnWaitMs);
  if (!leave) throw new GatewayError('SERVICE_UNAVAILABLE', undefined, { retryAfterSeconds: 2 });
  try {
    await serveOthers();
    return run();
  } finally {
    leave();
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function decode(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw invalidBody('must be UTF-8');
  }
}

function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    if (text.length > quickBytesMax) throw invalidBody('must be JSON');
    const { line, column } = jsonErrorPlace(text);
    throw invalidBody(`must be JSON; the error is in line ${line}, column ${column}`);
  }
  if (!isRecord(value)) throw invalidBody('must be a JSON object');
  return value;
}

function requireStorable<Value>(value: Value): Value {
  if (!isStorable(value)) throw invalidBody('must not contain NUL characters or lone surrogates');
  return value;
}

/** Returns whether Postgres can store all strings and names of a value. */
function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0');
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorable);
  return Object.entries(value).every(([name, each]) => isStorable(name) && isStorable(each));
}
