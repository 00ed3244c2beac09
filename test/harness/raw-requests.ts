/** Requests whose bodies a test sends piece by piece. */
import { text as readText } from 'node:stream/consumers';
import { request, type ClientRequest, type OutgoingHttpHeaders } from 'node:http';

/** A request without its body. */
export interface RawRequest {
  client: ClientRequest;
  /** Status of the response; `cut` if the connection ended without one. */
  status: Promise<number | 'cut'>;
  /** Body of the response; empty if there is none. */
  text: Promise<string>;
}

/** Opens a request, by default a POST, and sends its headers. */
export function openRequest(
  url: string,
  headers: OutgoingHttpHeaders,
  method = 'POST',
): RawRequest {
  const client = request(url, { method, agent: false, headers });
  const status = Promise.withResolvers<number | 'cut'>();
  const text = Promise.withResolvers<string>();
  client.on('response', (response) => {
    text.resolve(readText(response).catch(() => ''));
    status.resolve(response.statusCode ?? 'cut');
  });
  // A client that is rejected while it sends may not receive the response.
  client.on('error', () => {
    text.resolve('');
    status.resolve('cut');
  });
  client.flushHeaders();
  return { client, status: status.promise, text: text.promise };
}
