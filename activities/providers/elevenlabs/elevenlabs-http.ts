/** One POST to ElevenLabs: key in a header, no redirects, no retries, the answer as a stream. */
import { Readable } from 'node:stream';
import { Agent, request, type Dispatcher } from 'undici';

/** An answer whose body has not been read. */
export interface ElevenlabsAnswer {
  status: number;
  headers: Dispatcher.ResponseData['headers'];
  body: Readable;
}

/** A request body: JSON, or a form with at most one file in it. */
export type ElevenlabsBody =
  | { kind: 'json'; json: unknown }
  | { kind: 'form'; fields: Record<string, string>; file: FormFile | null };

/** A file of a form, streamed. */
export interface FormFile {
  name: string;
  contentType: string;
  sizeBytes: number;
  stream: Readable;
}

/** A request; `path` begins below the base URL. */
export interface ElevenlabsRequest {
  path: string;
  body: ElevenlabsBody;
  /** Tells this call from others in the provider's support; it does not dedupe by it. */
  idempotencyKey: string;
  signal: AbortSignal;
}

/** Sends requests to ElevenLabs. @throws what undici throws when there is no answer */
export type ElevenlabsExchange = (wanted: ElevenlabsRequest) => Promise<ElevenlabsAnswer>;

/** A song of ten minutes is made before its first byte comes: the caller's signal ends the wait. */
const noTimeout = 0;
const boundary = 'studio-gateway-7c1f0b9a5e2d4386';

/** Opens the connection pool. */
export function createElevenlabsExchange(options: {
  apiKey: string;
  baseUrl: string;
}): ElevenlabsExchange {
  const base = options.baseUrl.replace(/\/$/, '');
  const agent = new Agent({
    connect: { timeout: 5000 },
    headersTimeout: noTimeout,
    bodyTimeout: noTimeout,
    keepAliveTimeout: 30_000,
    connections: 256,
  });
  return async (wanted) => {
    const encoded = encode(wanted.body);
    try {
      const answer = await request(`${base}${wanted.path}`, {
        method: 'POST',
        dispatcher: agent,
        signal: wanted.signal,
        headers: {
          'xi-api-key': options.apiKey,
          'accept-encoding': 'identity',
          'idempotency-key': wanted.idempotencyKey,
          ...encoded.headers,
        },
        body: encoded.body,
      });
      return { status: answer.statusCode, headers: answer.headers, body: answer.body };
    } finally {
      // Answered or not, nothing more of the file is wanted; it may not even have been begun.
      if (wanted.body.kind === 'form') wanted.body.file?.stream.destroy();
    }
  };
}

interface Encoded {
  headers: Record<string, string>;
  body: string | Readable;
}

function encode(body: ElevenlabsBody): Encoded {
  if (body.kind === 'json') {
    return { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body.json) };
  }
  const fields = Object.entries(body.fields).map(
    ([name, value]) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const { file } = body;
  const head = file
    ? `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quotable(file.name)}"\r\n` +
      `Content-Type: ${file.contentType}\r\n\r\n`
    : '';
  const before = Buffer.from(fields.join('') + head);
  const after = Buffer.from(`${file ? '\r\n' : ''}--${boundary}--\r\n`);
  const length = before.length + (file?.sizeBytes ?? 0) + after.length;
  return {
    headers: {
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': String(length),
    },
    body: Readable.from(form(before, file?.stream ?? null, after), { objectMode: false }),
  };
}

async function* form(before: Buffer, file: Readable | null, after: Buffer): AsyncGenerator<Buffer> {
  yield before;
  if (file) yield* file as AsyncIterable<Buffer>;
  yield after;
}

/** A file name that fits between quotes of a header. */
function quotable(name: string): string {
  return name.replaceAll(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, '_');
}

/**
 * Reads a JSON answer within a limit; undefined when it is too long or not JSON.
 * @throws what the connection throws when it breaks off
 */
export async function readJson(body: Readable, bytesMax: number): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  const source: AsyncIterable<Buffer> = body;
  for await (const chunk of source) {
    size += chunk.length;
    if (size > bytesMax) return undefined;
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}
