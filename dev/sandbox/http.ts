/** HTTP layer of the sandbox. Handlers can access the socket, because faults close connections. */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** Maximum size of a request body in bytes, enough for data URIs of large inputs. */
export const bodyBytesMax = 64 * 1024 * 1024;

export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  url: URL;
  /** Named groups in the route's pattern, percent-decoded. */
  params: Record<string, string>;
}

/** Method, path pattern and handler. A GET route also handles HEAD. */
export type Route = readonly [
  method: string,
  pattern: RegExp,
  handle: (exchange: Exchange) => Promise<void> | void,
];

/** Response with a JSON body. */
export interface JsonResponse {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

/** Sends a JSON body; does nothing if the connection is closed. */
export function sendJson({ response }: Exchange, { status, body, headers }: JsonResponse): void {
  if (response.writableEnded || response.destroyed) return;
  const text = JSON.stringify(body);
  response.writeHead(status, {
    ...headers,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  });
  response.end(text);
}

/** Error for an unreadable request; the response has `status` and the message as `detail`. */
export class UnreadableRequestError extends Error {
  override readonly name = 'UnreadableRequestError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Reads the text of the request's body. @throws UnreadableRequestError 413 if it is too large */
export async function readText({ request }: Exchange): Promise<string> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > bodyBytesMax) throw new UnreadableRequestError(413, 'Request body too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Reads the request's JSON body; undefined if it is empty. @throws UnreadableRequestError like `readText` and `parseJson` */
export const readJson = async (exchange: Exchange): Promise<unknown> =>
  parseJson(await readText(exchange));

/** Parses a JSON body; undefined if it is empty. @throws UnreadableRequestError 422 if it is not JSON */
export function parseJson(text: string): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UnreadableRequestError(422, 'JSON decode error');
  }
}

function findRoute(routes: readonly Route[], method: string, path: string) {
  const effectiveMethod = method === 'HEAD' ? 'GET' : method;
  for (const [routeMethod, pattern, handle] of routes) {
    const match = routeMethod === effectiveMethod ? pattern.exec(path) : null;
    if (match) return { handle, params: match.groups ?? {} };
  }
  return undefined;
}

function decodeParams(params: Record<string, string>): Record<string, string> {
  const decoded: Record<string, string> = {};
  for (const [name, text] of Object.entries(params)) decoded[name] = decodeURIComponent(text);
  return decoded;
}

function sendFailure(exchange: Exchange, error: unknown): void {
  if (exchange.response.headersSent || exchange.request.socket.destroyed) {
    exchange.request.socket.destroy();
    return;
  }
  const status =
    error instanceof UnreadableRequestError ? error.status : error instanceof URIError ? 400 : 500;
  const detail = error instanceof Error ? error.message : 'Internal Server Error';
  if (status === 500)
    process.stderr.write(`sandbox: ${error instanceof Error ? error.stack : detail}\n`);
  sendJson(exchange, { status, body: { detail } });
}

/** Creates a request listener for the routes; other paths receive 404. */
export function createListener(routes: readonly Route[]) {
  return (request: IncomingMessage, response: ServerResponse): void => {
    const url =
      URL.parse(request.url ?? '/', 'http://sandbox.invalid') ?? new URL('http://sandbox.invalid/');
    const exchange: Exchange = { request, response, url, params: {} };
    const serve = async () => {
      const found = findRoute(routes, request.method ?? 'GET', url.pathname);
      if (!found) {
        sendJson(exchange, { status: 404, body: { detail: 'Not Found' } });
        return;
      }
      exchange.params = decodeParams(found.params);
      await found.handle(exchange);
    };
    serve().catch((error: unknown) => sendFailure(exchange, error));
  };
}
