/** HTTP client with which MCP tools call the API of their own process. */
import type { IncomingMessage } from 'node:http';

/** Request to an endpoint of the API. */
export interface ApiRequest {
  method: string;
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Response of the API, successful or not. */
export interface ApiResponse {
  ok: boolean;
  status: number;
  body: unknown;
  /**
   * Id of the job that this request or an earlier one with the same Idempotency-Key started. Null
   * if there is no job.
   */
  jobId: string | null;
}

/** Function that sends a request to the API of this process. */
export type SendApiRequest = (request: ApiRequest) => Promise<ApiResponse>;

/**
 * Creates the function that sends requests with the API key of an incoming request, until `signal`
 * aborts.
 */
export function createOwnApiClient(incoming: IncomingMessage, signal: AbortSignal): SendApiRequest {
  const { localAddress = '127.0.0.1', localPort } = incoming.socket;
  const host = localAddress.includes(':') ? `[${localAddress}]` : localAddress;
  const authorization = incoming.headers.authorization ?? '';
  return async ({ method, path, body, headers }) => {
    const response = await fetch(`http://${host}:${localPort}${path}`, {
      method,
      headers: {
        authorization,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      redirect: 'error',
      signal,
    });
    const { ok, status } = response;
    return { ok, status, body: await response.json(), jobId: response.headers.get('x-job-id') };
  };
}
