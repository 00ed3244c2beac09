/** Requests of MCP tools to the API of this process, over HTTP. */
import type { IncomingMessage } from 'node:http';

/** Request for one endpoint of the API. */
export interface OwnCall {
  method: string;
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Response of the API, success or error. */
export interface OwnAnswer {
  ok: boolean;
  status: number;
  body: unknown;
  /** Id of the job of this request or of its Idempotency-Key; null: no job. */
  jobId: string | null;
}

/** Function that sends a request to the API of this process. */
export type OwnApi = (call: OwnCall) => Promise<OwnAnswer>;

/** Makes the function that sends requests with the key of an incoming request. */
export function createOwnApi(request: IncomingMessage): OwnApi {
  const { localAddress = '127.0.0.1', localPort } = request.socket;
  const host = localAddress.includes(':') ? `[${localAddress}]` : localAddress;
  const authorization = request.headers.authorization ?? '';
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
    });
    const { ok, status } = response;
    return { ok, status, body: await response.json(), jobId: response.headers.get('x-job-id') };
  };
}
