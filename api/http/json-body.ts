/** Reads JSON bodies of requests, within limits of bytes, values and depth. */
import { GatewayError, fieldError } from '../../domain/errors.ts';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { setImmediate as serveOtherRequests } from 'node:timers/promises';
import { parse as parseJson, type ParseError } from 'jsonc-parser';
import { parseExact } from '../../domain/exact-numbers.ts';
import { findUnstorable, isRecord, isStorable } from '../../domain/json.ts';
import { runInTurn } from '../../platform/work-turns.ts';
import type { Context } from '../context.ts';
import { noteModel } from '../middleware/record-rejections.ts';
import { readChunks } from './connections.ts';
import { countBytes, findOwner } from '../middleware/request-shares.ts';

/** Maximum nesting depth of a body; the parser's stack is safe at this depth. */
const depthMax = 32;
/** Default maximum number of values in a body; the longest chat with tool calls has fewer. */
const defaultValuesMax = 50_000;
/** Maximum number of escapes in a body. Escapes are slow to parse. */
const escapesMax = 1_000_000;
/** Maximum number of bytes outside strings, enough for the values of every endpoint, indented. */
const outsideStringsMax = 4 * 1024 * 1024;

/** Byte values of JSON's structural characters. No other UTF-8 character contains these bytes. */
const structuralBytes = {
  quote: 34,
  comma: 44,
  backslash: 92,
  brace: 123,
  braceEnd: 125,
  bracket: 91,
  bracketEnd: 93,
} as const;

/** Returns the error INVALID_REQUEST for a whole body. Its detail has the path `(body)`. */
function invalidBodyError(message: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, { details: [{ path: '(body)', message }] });
}

/** Counts the contents of one JSON body and checks the limits while the body arrives. */
class JsonMeter {
  #depth = 0;
  #depthReached = 0;
  /**
   * Approximate number of values: one, plus one for each comma and opening bracket. An empty array
   * or object counts as two.
   */
  #values = 1;
  #escapes = 0;
  #outsideStrings = 0;
  #isInString = false;
  #isEscaped = false;
  readonly #valuesMax: number;

  constructor(valuesMax = defaultValuesMax) {
    this.#valuesMax = valuesMax;
  }

  /** Counts a chunk. @throws GatewayError INVALID_REQUEST if the body exceeds a limit */
  count(chunk: Buffer): void {
    for (let index = 0; index < chunk.length;) {
      index = this.#isInString
        ? this.#readString(chunk, index)
        : this.#readUntilString(chunk, index);
    }
    if (this.#depthReached > depthMax)
      throw invalidBodyError(`must not nest arrays and objects deeper than ${depthMax} levels`);
    if (this.#values > this.#valuesMax)
      throw invalidBodyError(`must not contain more than ${this.#valuesMax} values`);
    if (this.#escapes > escapesMax)
      throw invalidBodyError(`must not contain more than ${escapesMax} escapes`);
    if (this.#outsideStrings > outsideStringsMax) {
      throw invalidBodyError(
        `must not contain more than ${outsideStringsMax} bytes outside strings`,
      );
    }
  }

  /** Counts the escapes of a string from `start` on. Returns the index after its closing quote. */
  #readString(chunk: Buffer, start: number): number {
    let escapes = 0;
    let isEscaped = this.#isEscaped;
    let index = start;
    for (; index < chunk.length; index += 1) {
      const byte = chunk[index];
      if (isEscaped) isEscaped = false;
      else if (byte === structuralBytes.backslash) {
        isEscaped = true;
        escapes += 1;
      } else if (byte === structuralBytes.quote) {
        this.#isInString = false;
        index += 1;
        break;
      }
    }
    this.#isEscaped = isEscaped;
    this.#escapes += escapes;
    return index;
  }

  /**
   * Counts values, depth and bytes up to the next string. Returns the index after its opening
   * quote.
   */
  #readUntilString(chunk: Buffer, start: number): number {
    let values = 0;
    let depth = this.#depth;
    let index = start;
    for (; index < chunk.length; index += 1) {
      const byte = chunk[index];
      if (byte === structuralBytes.comma) values += 1;
      else if (byte === structuralBytes.brace || byte === structuralBytes.bracket) {
        values += 1;
        depth += 1;
        if (depth > this.#depthReached) this.#depthReached = depth;
      } else if (byte === structuralBytes.braceEnd || byte === structuralBytes.bracketEnd)
        depth -= 1;
      else if (byte === structuralBytes.quote) {
        this.#isInString = true;
        index += 1;
        break;
      }
    }
    this.#depth = depth;
    this.#values += values;
    this.#outsideStrings += index - start;
    return index;
  }
}

/** Place in a text; both numbers begin at 1. */
interface TextPlace {
  line: number;
  column: number;
}

/**
 * Returns the line and column of the first syntax error, both counted from 1. V8 names no position for an unexpected
 * token, which is the most frequent error.
 */
function findJsonError(text: string): TextPlace {
  const errors: ParseError[] = [];
  parseJson(text, errors, { disallowComments: true });
  const lines = text.slice(0, errors[0]?.offset).split('\n');
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}

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
    // Lets clients that read the response stop sending. A client that should retry may keep the
    // connection.
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
    // The last bytes may have arrived before the connection broke.
    const isBroken = !request.complete || request.errored !== null;
    if (error instanceof GatewayError || !isBroken) throw error;
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
  /** Names of the fields in which numbers keep their digits. */
  exactFields?: ReadonlySet<string> | undefined;
}

/** Reads a JSON object. @throws GatewayError INVALID_REQUEST, and the errors of `readBody` */
export async function readJson(
  ctx: Context,
  { bytesMax = jsonBytesMax, valuesMax, repair, exactFields }: JsonLimits = {},
): Promise<Record<string, unknown>> {
  if (!isJson(ctx.headers)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as application/json.');
  }
  const meter = new JsonMeter(valuesMax);
  const bytes = await readBody(ctx, bytesMax, (chunk) => meter.count(chunk));
  if (bytes.length <= oneStepBytesMax) {
    const body = checkStorable(parseObject(decodeUtf8(bytes), exactFields), repair);
    noteModel(ctx, body);
    return body;
  }
  const owner = findOwner(ctx);
  const text = await runInTurn(owner, () => decodeUtf8(bytes));
  const value = await runInTurn(owner, () => parseObject(text, exactFields));
  await runInTurn(owner, () => checkStorable(value, repair));
  noteModel(ctx, value);
  await serveOtherRequests();
  return value;
}

/**
 * Parses one line of a body as a JSON object, within the limits of values and depth. Numbers in `exactFields` keep
 * their digits.
 * @throws GatewayError INVALID_REQUEST
 */
export function parseJsonLine(
  line: Buffer,
  exactFields: ReadonlySet<string>,
): Record<string, unknown> {
  new JsonMeter().count(line);
  return checkStorable(
    parseObject(decodeUtf8(line), exactFields, ({ column }) => `column ${column}`),
  );
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function decodeUtf8(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw invalidBodyError('must be UTF-8');
  }
}

/** `formatPlace` formats the place of a syntax error for its message. */
function parseObject(
  text: string,
  exactFields?: ReadonlySet<string>,
  formatPlace = ({ line, column }: TextPlace): string => `line ${line}, column ${column}`,
): Record<string, unknown> {
  let value: unknown;
  try {
    value = exactFields?.size ? parseExact(text, exactFields) : JSON.parse(text);
  } catch {
    if (text.length > oneStepBytesMax) throw invalidBodyError('must be JSON');
    throw invalidBodyError(`must be JSON; the error is in ${formatPlace(findJsonError(text))}`);
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
