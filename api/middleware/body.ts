/** Request bodies: read within their limits, parsed strictly. */
import type { IncomingHttpHeaders } from 'node:http';
import { setImmediate as othersTurn } from 'node:timers/promises';
import type { z } from 'zod';
import { GatewayError, refusedFields } from '../../domain/errors.ts';
import type { Context } from '../context.ts';
import type { BodySchema } from './body-schema.ts';
import { noWords, wordIssues, type Place } from './issue-words.ts';
import { JsonMeter, notABody } from './json-meter.ts';

/** Bytes of a JSON body: all limits of spec §4 fit many times. */
const jsonBytesMax = 1024 * 1024;
/** A body that takes longer is not on its way; uploads have a route and a limit of their own. */
const bodyTimeoutMs = 60_000;
/** A larger body is parsed in steps, between which others have their turn. */
const quickBytesMax = 64 * 1024;
/** A body with more values is refused for the first thing that is wrong with it. */
const thoroughValuesMax = 1000;

/**
 * Reads the raw body; `count` is shown each piece of it as it arrives, and may refuse.
 * @throws GatewayError PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, what `count` throws, and what
 * body-bytes.ts throws when too much is in flight
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
    ctx.state.bodyBytes.hold(size - held);
    held = size;
  };
  try {
    hold(announced);
    return await collect(ctx, hold, count);
  } catch (error) {
    // The rest of the body is not worth reading, so the connection cannot be used again; who is asked to
    // come back must hear it, which he does only when he has sent everything.
    const comesBack = error instanceof GatewayError && error.retryAfterSeconds !== undefined;
    if (!comesBack) ctx.set('Connection', 'close');
    throw error;
  }
}

/** As `for await`, at a fraction of its cost; a body that is refused is left where it is. */
function collect(
  { req }: Context,
  hold: (size: number) => void,
  count: ((piece: Buffer) => void) | undefined,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let pieces: Buffer[] = [];
    let size = 0;
    const late = setTimeout(() => req.destroy(new GatewayError('REQUEST_TIMEOUT')), bodyTimeoutMs);
    function fail(error: unknown): void {
      clearTimeout(late);
      req.off('data', take);
      req.pause();
      pieces = [];
      reject(error);
    }
    function take(piece: Buffer): void {
      size += piece.length;
      try {
        hold(size);
        count?.(piece);
        pieces.push(piece);
      } catch (error) {
        fail(error);
      }
    }
    req.on('data', take);
    req.on('error', fail);
    req.on('close', () => {
      if (!req.complete) fail(new GatewayError('CANCELED', 'The caller went away.'));
    });
    req.on('end', () => {
      clearTimeout(late);
      resolve(pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces));
    });
  });
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
  schema: BodySchema<Body>,
  bytesMax = jsonBytesMax,
): Promise<Body> {
  return parseWith(schema, await readJson(ctx, bytesMax));
}

const toTheEnd: z.core.ParseContext<z.core.$ZodIssue> = { error: noWords };
/** Stops at the first thing that is wrong, where zod would go on to look at each of a million. */
const untilFirst: z.core.ParseContextInternal<z.core.$ZodIssue> = { ...toTheEnd, abortEarly: true };

/**
 * Parses a value by a schema.
 * @throws GatewayError INVALID_REQUEST naming each field, of a large value the first
 */
export function parseWith<Value>(
  schema: z.ZodType<Value>,
  value: unknown,
  place: Place = 'body',
): Value {
  const parsed = schema.safeParse(value, untilFirst);
  if (parsed.success) return parsed.data;
  const isWide = holdsMoreValues(value, thoroughValuesMax);
  const { error } = isWide ? parsed : schema.safeParse(value, toTheEnd);
  const { issues } = error ?? parsed.error;
  throw refusedFields('INVALID_REQUEST', wordIssues(issues, { schema, value, place }));
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
  if (!isObject(value)) throw notABody('must be a JSON object');
  return value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function storable<Value>(value: Value): Value {
  if (!isStorable(value)) throw notABody('must not hold NUL characters or lone surrogates');
  return value;
}

/** Whether Postgres can keep all texts and names of a value. */
function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0');
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorable);
  return Object.entries(value).every(([name, each]) => isStorable(name) && isStorable(each));
}

function holdsMoreValues(value: unknown, countMax: number): boolean {
  let left = countMax;
  const count = (each: unknown): boolean => {
    left -= 1;
    if (left < 0) return true;
    return typeof each === 'object' && each !== null && Object.values(each).some(count);
  };
  return count(value);
}
