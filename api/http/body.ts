/** Reads request bodies within their size and time limits, and parses them as JSON. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { setImmediate as serveOtherRequests } from 'node:timers/promises';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { findUnstorable, isRecord, isStorable } from '../../domain/json.ts';
import { createShares } from '../../platform/shares.ts';
import type { Context } from '../context.ts';
import { readChunks } from './body-timeouts.ts';
import { countBytes, findOwner } from '../middleware/shares.ts';
import { findJsonError } from './json-error.ts';
import { JsonMeter, invalidBodyError } from './json-meter.ts';

/** Default maximum size of a JSON body, in bytes. */
const jsonBytesMax = 1024 * 1024;
/**
 * Size in bytes above which a body is parsed in steps, so that other requests are served in
 * between.
 */
const oneStepBytesMax = 64 * 1024;

/**
 * Reads the raw body of at most `bytesMax` bytes. `checkChunk` receives each chunk as it arrives,
 * and may throw to reject the request.
 * @throws GatewayError PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, REQUEST_TIMEOUT if the body
 * arrives too slowly, 429 or SERVICE_UNAVAILABLE if the organization has its share of bytes, and errors of
 * `checkChunk`
 */
export async function readBody(
  ctx: Context,
  bytesMax: number,
  checkChunk?: (chunk: Buffer) => void,
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
    return await readWithin(ctx.req, (chunk, size) => {
      checkSize(size);
      countBytes(ctx, { kind: 'body', bytes: chunk.length });
      checkChunk?.(chunk);
    });
  } catch (error) {
    ctx.state.releaseBytes('body');
    // Closes the connection without reading the rest of the body. If the client should retry, the
    // rest is read, because many clients read a response only after they have sent everything.
    const isRetryable = error instanceof GatewayError && error.retryAfterSeconds !== undefined;
    if (!isRetryable) ctx.set('Connection', 'close');
    throw error;
  }
}

/** Reads the whole body. `check` receives each chunk and the size so far, and may throw. */
async function readWithin(
  request: IncomingMessage,
  check: (chunk: Buffer, size: number) => void,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of readChunks(request)) {
      size += chunk.length;
      check(chunk, size);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch (error) {
    if (error instanceof GatewayError || request.complete) throw error;
    throw new GatewayError('CANCELED', 'The client closed the connection.');
  }
}

const jsonType = /^\s*(?:application\/json|[\w!#$&^-]+\/[\w!#$&^.+-]+\+json)\s*(?:;|$)/i;

/** Returns whether the request has a body with a JSON content type. */
function isJson(headers: IncomingHttpHeaders): boolean {
  const { 'content-type': type = '', 'content-length': length } = headers;
  if (length === undefined && headers['transfer-encoding'] === undefined) return false;
  return type === 'application/json' || jsonType.test(type);
}

/** Limits and repair of a JSON body; undefined for the defaults. */
interface JsonLimits {
  bytesMax?: number | undefined;
  valuesMax?: number | undefined;
  /** Called before a text that Postgres cannot store is rejected. */
  repair?: BodyRepair | undefined;
}

/** Reads a JSON object. @throws GatewayError INVALID_REQUEST, and the errors of `readBody` */
export async function readJson(
  ctx: Context,
  { bytesMax = jsonBytesMax, valuesMax, repair }: JsonLimits = {},
): Promise<Record<string, unknown>> {
  if (!isJson(ctx.headers)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as application/json.');
  }
  const meter = new JsonMeter(valuesMax);
  const bytes = await readBody(ctx, bytesMax, (chunk) => meter.count(chunk));
  if (bytes.length <= oneStepBytesMax) return checkStorable(parseObject(decodeUtf8(bytes)), repair);
  const owner = findOwner(ctx);
  const text = await runInTurn(owner, () => decodeUtf8(bytes));
  const value = await runInTurn(owner, () => parseObject(text));
  await runInTurn(owner, () => checkStorable(value, repair));
  await serveOtherRequests();
  return value;
}

/** Limiter that lets one large body be parsed at a time. */
const parseTurns = createShares(1);
/** Maximum time that a large body waits for its next parsing step, in milliseconds. */
const turnWaitMs = 60_000;

/**
 * Runs one parsing step of a large body. Other requests are served between two steps, and the
 * owners of large bodies take turns.
 * @throws GatewayError SERVICE_UNAVAILABLE if the step waits longer than `turnWaitMs`
 */
async function runInTurn<Result>(owner: string, run: () => Result): Promise<Result> {
  const endTurn = await parseTurns.enter(owner, turnWaitMs);
  if (!endTurn) throw new GatewayError('SERVICE_UNAVAILABLE', undefined, { retryAfterSeconds: 2 });
  try {
    await serveOtherRequests();
    return run();
  } finally {
    endTurn();
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function decodeUtf8(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw invalidBodyError('must be UTF-8');
  }
}

function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    if (text.length > oneStepBytesMax) throw invalidBodyError('must be JSON');
    const { line, column } = findJsonError(text);
    throw invalidBodyError(`must be JSON; the error is in line ${line}, column ${column}`);
  }
  if (!isRecord(value)) throw invalidBodyError('must be a JSON object');
  return value;
}

/** Repairs texts of a body that contains texts which Postgres cannot store. */
export type BodyRepair = (body: Record<string, unknown>) => void;

function checkStorable(
  value: Record<string, unknown>,
  repair?: BodyRepair,
): Record<string, unknown> {
  if (isStorable(value)) return value;
  repair?.(value);
  const path = findUnstorable(value);
  if (!path) return value;
  const message = 'must not contain NUL characters or lone surrogates';
  if (path.length === 0) throw invalidBodyError(message);
  throw fieldError('INVALID_REQUEST', path.join('.').slice(0, pathLengthMax), message);
}

/** Maximum length of the path in an error. */
const pathLengthMax = 200;
