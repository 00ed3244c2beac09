/** Requests whose bodies a test sends piece by piece. */
import { request, type ClientRequest, type OutgoingHttpHeaders } from 'node:http';

/** A request without its body. */
export interface RawRequest {
  client: ClientRequest;
  /** Status of the response; `cut` if the connection ended without one. */
  status: Promise<number | 'cut'>;
}

/** Opens a request, by default a POST, and sends its headers. */
export function openRequest(
  url: string,
  headers: OutgoingHttpHeaders,
  method = 'POST',
): RawRequest {
  const client = request(url, { method, agent: false, headers });
  const status = new Promise<number | 'cut'>((resolve) => {
    client.on('response', (response) => {
      response.resume();
      resolve(response.statusCode ?? 'cut');
    });
    // A client that is rejected while it sends may not receive the response.
    client.on('error', () => resolve('cut'));
  });
  client.flushHeaders();
  return { client, status };
}
