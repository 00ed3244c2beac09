/**
 * Request bodies: read within their limits, then JSON. Bytes in flight (read, or on their way, and not answered yet)
 * are bounded for this process and for each key: what they come to in memory is a few times as much.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { setImmediate as othersTurn } from 'node:timers/promises';
import type { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import type { Context, Middleware } from '../context.ts';
import { JsonMeter, notABody } from './json-meter.ts';
import { parseWith } from './parsing.ts';

/** Bytes of a JSON body: all limits of spec §4 fit many times. */
const jsonBytesMax = 1024 * 1024;
/** A body that takes longer is not on its way; uploads have a route and a limit of their own. */
const bodyTimeoutMs = 60_000;
/** A larger body is parsed in steps, between which others have their turn. */
const quickBytesMax = 64 * 1024;
/** What is too much in flight is less within seconds. */
const retryAfterSeconds = 1;

interface BodyBytesLimits {
  /** Bytes. */
  processMax: number;
  /** Bytes of one key. */
  keyMax: number;
}

/** Gives every request its part of the limits, and takes it back once it is answered. */
export function limitBodyBytes({ processMax, keyMax }: BodyBytesLimits): Middleware {
  const ofKeys = new Map<string, number>();
  let ofProcess = 0;

  function add(keyId: string | undefined, bytes: number): void {
    ofProcess += bytes;
    if (keyId === undefined) return;
    const ofKey = (ofKeys.get(keyId) ?? 0) + bytes;
    if (ofKey === 0) ofKeys.delete(keyId);
    else ofKeys.set(keyId, ofKey);
  }

  return async (ctx, next) => {
    let held = 0;
    let keyId: string | undefined;
    ctx.state.holdBytes = (bytes) => {
      // Nobody has a key where something else than a key lets in.
      keyId = ctx.state.caller?.keyId;
      if (keyId !== undefined && (ofKeys.get(keyId) ?? 0) + bytes > keyMax) {
        const message = 'Too many bytes of this key are in flight.';
        throw new GatewayError('Rate limit exceeded. Please slow down.', message, {
          retryAfterSeconds,
        });
      }
      if (ofProcess + bytes > processMax) {
        const message = 'Too many bytes of requests are in flight.';
        throw new GatewayError('SERVICE_UNAVAILABLE', message, { retryAfterSeconds });
      }
      add(keyId, bytes);
      held += bytes;
    };
    try {
      await next();
    } finally {
      if (held > 0) add(keyId, -held);
    }
  };
}

/**
 * Reads the raw body; `count` is shown each piece of it as it arrives, and may refuse.
 * @throws GatewayError PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, what `count` throws, and 429 or
 * SERVICE_UNAVAILABLE when too much is in flight
 */
export async function readBody(
  ctx: Context,
  bytesMax: number,
  count?: (piece: Buffer) => void,
): Promise<Buffer> {
  const encoding = ctx.headers['content-encoding'];
  if (encoding && encoding !== 'identity') {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Compressed request bodies are not accepted.');
  }
  const announced = Number(ctx.headers['content-length'] ?? 0);
  let held = 0;
  /** Of a body that says how long it is, all is held from the start. */
  const hold = (size: number): void => {
    if (size > bytesMax) {
      throw new GatewayError('PAYLOAD_TOO_LARGE', `The body has more than ${bytesMax} bytes.`);
    }
    if (size <= held) return;
    ctx.state.holdBytes(size - held);
    held = size;
  };
  try {
    hold(announced);
    return await collect(ctx.req, (piece, size) => {
      hold(size);
      count?.(piece);
    });
  } catch (error) {
    // The rest of the body is not worth reading, so the connection cannot be used again; who is asked to
    // come back must hear it, which he does only when he has sent everything.
    const comesBack = error instanceof GatewayError && error.retryAfterSeconds !== undefined;
    if (!comesBack) ctx.set('Connection', 'close');
    throw error;
  }
}

/** The body; `look` is shown each piece and how many bytes there are, and may refuse. */
async function collect(
  request: IncomingMessage,
  look: (piece: Buffer, size: number) => void,
): Promise<Buffer> {
  const late = setTimeout(
    () => request.destroy(new GatewayError('REQUEST_TIMEOUT')),
    bodyTimeoutMs,
  );
  const pieces: Buffer[] = [];
  let size = 0;
  try {
    // A body that is refused is left where it is: its connection has to carry the refusal.
    const arriving: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false });
    for await (const piece of arriving) {
      size += piece.length;
      look(piece, size);
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  } catch (error) {
    if (error instanceof GatewayError || request.complete) throw error;
    throw new GatewayError('CANCELED', 'The caller went away.');
  } finally {
    clearTimeout(late);
  }
}

const json = /^\s*(?:application\/json|[\w!#$&^-]+\/[\w!#$&^.+-]+\+json)\s*(?:;|$)/i;

/** Whether there is a body, and it says that it is JSON. */
function isJson(headers: IncomingHttpHeaders): boolean {
  const { 'content-type': type = '', 'content-length': length } = headers;
  if (length === undefined && headers['transfer-encoding'] === undefined) return false;
  return type === 'application/json' || json.test(type);
}

/**
 * Reads a JSON object.
 * @throws GatewayError INVALID_REQUEST, and as `readBody`
 */
export async function readJson(
  ctx: Context,
  bytesMax = jsonBytesMax,
): Promise<Record<string, unknown>> {
  if (!isJson(ctx.headers)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as application/json.');
  }
  const meter = new JsonMeter();
  const bytes = await readBody(ctx, bytesMax, (piece) => meter.count(piece));
  if (bytes.length <= quickBytesMax) return storable(parseObject(decode(bytes)));
  const text = await inTurn(() => decode(bytes));
  const value = await inTurn(() => parseObject(text));
  await inTurn(() => storable(value));
  await othersTurn();
  return value;
}

/**
 * Reads a JSON object and parses it by a schema.
 * @throws GatewayError INVALID_REQUEST naming each field, and as `readBody`
 */
export async function parseBody<Body>(
  ctx: Context,
  schema: z.ZodType<Body>,
  bytesMax = jsonBytesMax,
): Promise<Body> {
  return parseWith(schema, await readJson(ctx, bytesMax));
}

let lastTurn: Promise<unknown> = Promise.resolve();

/** Runs what takes a while, one after the other; whatever else waits comes in between. */
function inTurn<Result>(run: () => Result): Promise<Result> {
  const turn = lastTurn.then(() => othersTurn()).then(run);
  lastTurn = turn.catch(() => {});
  return turn;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function decode(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw notABody('must be UTF-8');
  }
}

function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw notABody('must be JSON');
  }
  if (!isRecord(value)) throw notABody('must be a JSON object');
  return value;
}

function storable<Value>(value: Value): Value {
  if (!isStorable(value)) throw notABody('must not contain NUL characters or lone surrogates');
  return value;
}

/** Whether Postgres can keep all texts and names of a value. */
function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0');
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorable);
  return Object.entries(value).every(([name, each]) => isStorable(name) && isStorable(each));
}
