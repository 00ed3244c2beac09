/** A third party’s web server with images and videos, for inputs by URL. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A running media server. */
export interface MediaServer {
  origin: string;
  /** Serves bytes at a path; with `ranges: false`, each range request receives the whole file. */
  put: (path: string, bytes: Buffer, options?: { ranges?: boolean }) => string;
  /** Sets the response to the nth request for a path (from 1). */
  serve: (path: string, answer: (response: ServerResponse, count: number) => void) => string;
  /** Bytes sent for a path. */
  sentBytes: (path: string) => number;
  /** Requests for a path of `serve`. */
  requests: (path: string) => number;
  close: () => void;
}

/** Starts a media server on a free port. */
export async function startMediaServer(): Promise<MediaServer> {
  const files = new Map<string, { bytes: Buffer; ranges: boolean; sentBytes: number }>();
  const answers = new Map<string, (response: ServerResponse, count: number) => void>();
  const counts = new Map<string, number>();
  const server = createServer((request, response) => {
    response.on('error', () => {});
    const path = request.url ?? '';
    const answer = answers.get(path);
    if (answer) {
      const count = (counts.get(path) ?? 0) + 1;
      counts.set(path, count);
      answer(response, count);
      return;
    }
    const file = files.get(path);
    if (!file) {
      response.writeHead(404).end();
      return;
    }
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    if (!file.ranges || first === undefined) {
      file.sentBytes += file.bytes.length;
      response.writeHead(200, { 'content-length': file.bytes.length }).end(file.bytes);
      return;
    }
    const end = Math.min(Number(last), file.bytes.length - 1);
    const part = file.bytes.subarray(Number(first), end + 1);
    file.sentBytes += part.length;
    response.writeHead(206, {
      'content-length': part.length,
      'content-range': `bytes ${first}-${end}/${file.bytes.length}`,
    });
    response.end(part);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    origin,
    put(path, bytes, { ranges = true } = {}) {
      answers.delete(path);
      files.set(path, { bytes, ranges, sentBytes: 0 });
      return `${origin}${path}`;
    },
    serve(path, answer) {
      counts.set(path, 0);
      answers.set(path, answer);
      return `${origin}${path}`;
    },
    requests: (path) => counts.get(path) ?? 0,
    sentBytes: (path) => files.get(path)?.sentBytes ?? 0,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
