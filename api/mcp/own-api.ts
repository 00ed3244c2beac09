/**
 * The API, called by its own MCP server as any client calls it: same key, same gate, same answers. A tool
 * is thereby never more and never less than its operation (docs/mcp.md).
 */
import type { IncomingMessage } from 'node:http';

/** A call of one operation. */
export interface OwnCall {
  method: string;
  /** With its query. */
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** An answer, success or refusal. */
export interface OwnAnswer {
  ok: boolean;
  status: number;
  body: unknown;
  /** The job that the call made, or made before under its Idempotency-Key. */
  jobId: string | null;
}

/** Calls this process's API. */
export type OwnApi = (call: OwnCall) => Promise<OwnAnswer>;

/** The API that a request came to, called with that request's key. */
export function ownApiOf(request: IncomingMessage): OwnApi {
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
