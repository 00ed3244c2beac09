/** What the port answers before the application can: alive, but not ready. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { errorTable } from '../domain/errors.ts';

/** Node's request handler. */
export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** 200 on /healthz, 503 with Retry-After on everything else, whatever the process waits for. */
export function answerStarting(request: IncomingMessage, response: ServerResponse): void {
  const isAlive = request.method === 'GET' && request.url === '/healthz';
  const { status, message } = errorTable.SERVICE_UNAVAILABLE;
  const body = isAlive ? { status: 'ok' } : { error: 'SERVICE_UNAVAILABLE', message };
  response.writeHead(isAlive ? 200 : status, {
    'Content-Type': 'application/json; charset=utf-8',
    ...(!isAlive && { 'Retry-After': '2' }),
    // Nobody reads the rest of an upload.
    Connection: 'close',
  });
  response.end(JSON.stringify(body));
}
