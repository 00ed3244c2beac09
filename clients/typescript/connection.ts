/** Requests to the API with the key of the client. */
import { createSend, type GatewayOptions, type Send, type Sent } from './transport.ts';

/** Options of a request to a path of the API. */
type RequestOptions = Pick<Sent, 'headers' | 'signal' | 'timeoutMs'>;

/** Connection of a client to the API. */
export interface Connection {
  /** URL of the service without `/api/v1`. */
  baseUrl: string;
  /** Sends a request with the key to any URL of the API. */
  send: Send;
  /** Sends a request without the key, for signed URLs, which may belong to another service. */
  sendWithoutKey: Send;
  get: (path: string, options?: RequestOptions) => Promise<Response>;
  /** Sends a JSON body; undefined: no body. */
  post: (path: string, body: unknown, options?: RequestOptions) => Promise<Response>;
}

/** Makes the connection of a client. */
export function connect(options: GatewayOptions): Connection {
  const baseUrl = options.baseUrl.replace(/(\/api)?(\/v1)?\/*$/, '');
  const sendWithoutKey = createSend(options);
  const send: Send = (request) => sendWithoutKey(withKey(request, options.apiKey));
  return {
    baseUrl,
    send,
    sendWithoutKey,
    get: (path, request) => send({ ...request, url: `${baseUrl}${path}`, method: 'GET' }),
    post: (path, body, request) =>
      send({
        ...request,
        url: `${baseUrl}${path}`,
        method: 'POST',
        headers: { 'Content-Type': 'application/json', ...request?.headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
  };
}

/** Adds the key and, to a POST, an idempotency key, so that a retry is the same request. */
function withKey(request: Sent, apiKey: string): Sent {
  const headers = new Headers(request.headers);
  headers.set('Authorization', `Bearer ${apiKey}`);
  if (request.method === 'POST' && !headers.has('Idempotency-Key')) {
    headers.set('Idempotency-Key', crypto.randomUUID());
  }
  return { ...request, headers: Object.fromEntries(headers) };
}

/** Makes the header with an idempotency key; undefined: no header. */
export function keyHeader(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { 'Idempotency-Key': key };
}

/** Parses the JSON body of a response. */
export async function parseBody<Body>(response: Response): Promise<Body> {
  return JSON.parse(await response.text());
}
