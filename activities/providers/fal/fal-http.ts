/** One HTTP exchange with fal: key in a header, no redirects, no retries, a bounded answer. */
import { Agent, request, type Dispatcher } from 'undici';

/** An answer with its JSON read; `body` is undefined when it was not JSON or too long. */
export interface FalAnswer {
  status: number;
  headers: Dispatcher.ResponseData['headers'];
  body: unknown;
}

/** A request; `url` is absolute. */
export interface FalRequest {
  method: 'GET' | 'POST' | 'PUT';
  url: string;
  json?: unknown;
  signal: AbortSignal;
}

/** Sends requests to fal. */
export interface FalHttp {
  agent: Dispatcher;
  /** @throws what undici throws when there is no answer */
  exchange: (wanted: FalRequest) => Promise<FalAnswer>;
}

/** Answers are short JSON documents; anything longer is not one. */
const answerBytesMax = 4 * 1024 * 1024;
const timeoutMs = 30_000;

/** Opens the connection pool. */
export function createFalHttp(apiKey: string): FalHttp {
  const agent = new Agent({
    connect: { timeout: 5000 },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: 30_000,
    connections: 256,
  });
  return {
    agent,
    async exchange(wanted) {
      const answer = await request(wanted.url, {
        method: wanted.method,
        dispatcher: agent,
        signal: wanted.signal,
        headers: {
          authorization: `Key ${apiKey}`,
          accept: 'application/json',
          'accept-encoding': 'identity',
          ...(wanted.json !== undefined && { 'content-type': 'application/json' }),
        },
        body: wanted.json === undefined ? null : JSON.stringify(wanted.json),
      });
      return {
        status: answer.statusCode,
        headers: answer.headers,
        body: await readJson(answer.body),
      };
    },
  };
}

async function readJson(body: Dispatcher.ResponseData['body']): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  const source: AsyncIterable<Buffer> = body;
  for await (const chunk of source) {
    size += chunk.length;
    if (size > answerBytesMax) return undefined;
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}
