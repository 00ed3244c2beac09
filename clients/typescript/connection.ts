/** Sends requests to the API with the client's API key. */
import { StudioError } from './errors.ts';
import { createSend, type GatewayOptions, type OutgoingRequest, type Send } from './transport.ts';

/** Source of keys that change, such as browser tokens (browser.ts). */
export interface KeySource {
  /** Returns the current key. */
  read: () => Promise<string>;
  /** Notes that the gateway rejected a key; `read` then returns another one. */
  reject: (key: string) => void;
}

/** Options of a client, with a source of keys instead of a key. */
export type ConnectionOptions = Omit<GatewayOptions, 'apiKey'> & { apiKey: string | KeySource };

/** Options of a request to a path of the API. */
type RequestOptions = Pick<OutgoingRequest, 'headers' | 'signal' | 'timeoutMs'>;

/** Connection of a client to the API. */
export interface Connection {
  /** URL of the gateway without `/api/v1`. */
  baseUrl: string;
  /** Sends a request with the API key to any URL of the API. */
  send: Send;
  /** Sends a request without the API key, to a signed URL that may belong to another service. */
  sendWithoutKey: Send;
  get: (path: string, options?: RequestOptions) => Promise<Response>;
  /** Sends a POST request with `body` as JSON. If `body` is undefined, the request has no body. */
  post: (path: string, body: unknown, options?: RequestOptions) => Promise<Response>;
}

/** Creates the connection of a client. */
export function connect({ apiKey, ...options }: ConnectionOptions): Connection {
  const baseUrl = options.baseUrl.replace(/(\/api)?(\/v1)?\/*$/, '');
  const sendWithoutKey = createSend(options);
  const send: Send = async (request) => {
    if (typeof apiKey === 'string') return sendWithoutKey(addApiKey(request, apiKey));
    const key = await apiKey.read();
    try {
      return await sendWithoutKey(addApiKey(request, key));
    } catch (error) {
      if (!(error instanceof StudioError) || error.status !== 401) throw error;
      apiKey.reject(key);
      return sendWithoutKey(addApiKey(request, await apiKey.read()));
    }
  };
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

/**
 * Adds the API key and, to a POST, an Idempotency-Key header, so that the gateway executes a
 * retried request only once.
 */
function addApiKey(request: OutgoingRequest, apiKey: string): OutgoingRequest {
  const headers = new Headers(request.headers);
  headers.set('Authorization', `Bearer ${apiKey}`);
  if (request.method === 'POST' && !headers.has('Idempotency-Key')) {
    headers.set('Idempotency-Key', crypto.randomUUID());
  }
  return { ...request, headers: Object.fromEntries(headers) };
}

/** Returns an Idempotency-Key header, or no header if `key` is undefined. */
export function idempotencyHeader(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { 'Idempotency-Key': key };
}

/** Parses the JSON body of a response. */
export async function parseBody<Body>(response: Response): Promise<Body> {
  return JSON.parse(await response.text());
}
