/** Request bodies: read within a limit, parsed strictly. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import type { RequestContext } from '../context.ts';

/** Bytes of a JSON body: all limits of spec §4 fit many times. */
const jsonBytesMax = 1024 * 1024;
/** A body that takes longer is not on its way; uploads have a route and a limit of their own. */
const bodyTimeoutMs = 60_000;
/** No request of ours nests deeper; a parser's stack must not be the limit. */
const depthMax = 32;

/**
 * Reads the raw body.
 * @throws GatewayError PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE
 */
export async function readBody(ctx: RequestContext, bytesMax: number): Promise<Buffer> {
  const encoding = ctx.headers['content-encoding'];
  if (encoding && encoding !== 'identity') {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Compressed request bodies are not accepted.');
  }
  const tooLarge = (): GatewayError => {
    // The rest of the body is not worth reading, so the connection cannot be used again.
    ctx.set('Connection', 'close');
    return new GatewayError('PAYLOAD_TOO_LARGE', `The body has more than ${bytesMax} bytes.`);
  };
  if (Number(ctx.headers['content-length'] ?? 0) > bytesMax) throw tooLarge();
  return collect(ctx.req, bytesMax, tooLarge);
}

/** As `for await`, at a fraction of its cost; a body that is too large is left where it is. */
function collect(
  request: IncomingMessage,
  bytesMax: number,
  tooLarge: () => GatewayError,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const late = setTimeout(
      () => request.destroy(new GatewayError('REQUEST_TIMEOUT')),
      bodyTimeoutMs,
    );
    const fail = (error: Error): void => {
      clearTimeout(late);
      request.pause();
      reject(error);
    };
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > bytesMax) fail(tooLarge());
      else chunks.push(chunk);
    });
    request.on('error', fail);
    request.on('close', () => {
      if (!request.complete) fail(new GatewayError('CANCELED', 'The caller went away.'));
    });
    request.on('end', () => {
      clearTimeout(late);
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));
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
 * @throws GatewayError INVALID_REQUEST, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE
 */
export async function readJson(
  ctx: RequestContext,
  bytesMax = jsonBytesMax,
): Promise<Record<string, unknown>> {
  if (!isJson(ctx.headers)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as application/json.');
  }
  return parseJson(await readBody(ctx, bytesMax));
}

/**
 * Reads a JSON object and parses it by a schema.
 * @throws GatewayError INVALID_REQUEST naming each field, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE
 */
export async function parseBody<Body>(
  ctx: RequestContext,
  schema: z.ZodType<Body>,
  bytesMax = jsonBytesMax,
): Promise<Body> {
  return parseWith(schema, await readJson(ctx, bytesMax));
}

/**
 * Parses a value by a schema.
 * @throws GatewayError INVALID_REQUEST naming each field
 */
export function parseWith<Value>(schema: z.ZodType<Value>, value: unknown): Value {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const details = parsed.error.issues.slice(0, 20).map((issue) => ({
    path: issue.path.map(String).join('.').slice(0, 200) || '(body)',
    message: issue.message.slice(0, 300),
  }));
  const [first] = details;
  throw new GatewayError('INVALID_REQUEST', `${first?.path}: ${first?.message}`, { details });
}

function notABody(message: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, { details: [{ path: '(body)', message }] });
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function parseJson(bytes: Buffer): Record<string, unknown> {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw notABody('must be UTF-8');
  }
  // Counted before parsing, so that depth costs nothing.
  if (depthOf(text) > depthMax) throw notABody(`must not nest deeper than ${depthMax}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw notABody('must be JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw notABody('must be a JSON object');
  }
  if (holdsUnstorableText(text)) throw notABody('must not hold NUL characters or lone surrogates');
  return { ...value };
}

/** Codes of `"`, `\\`, `{`, `}`, `[` and `]`. */
const signs = {
  quote: 34,
  backslash: 92,
  brace: 123,
  braceEnd: 125,
  bracket: 91,
  bracketEnd: 93,
} as const;

/** The deepest nesting of brackets outside strings. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let index = 0; index < text.length; index += 1) {
    const sign = text.charCodeAt(index);
    if (inString) {
      if (sign === signs.backslash) index += 1;
      else if (sign === signs.quote) inString = false;
    } else if (sign === signs.quote) inString = true;
    else if (sign === signs.brace || sign === signs.bracket) {
      depth += 1;
      if (depth > deepest) deepest = depth;
    } else if (sign === signs.braceEnd || sign === signs.bracketEnd) depth -= 1;
  }
  return deepest;
}

/** Characters that Postgres cannot keep, spelled as escapes (raw ones are not valid JSON or UTF-8). */
function holdsUnstorableText(text: string): boolean {
  if (!/\\u(0000|d[89a-f])/i.test(text)) return false;
  return /\0/.test(unescaped(text)) || !unescaped(text).isWellFormed();
}

function unescaped(text: string): string {
  return text.replaceAll(/\\\\|\\u([0-9a-f]{4})/gi, (match, hex: string | undefined) =>
    hex === undefined ? match : String.fromCharCode(Number.parseInt(hex, 16)),
  );
}
