/** A third party’s web server with images and videos, for inputs by URL. */
import type { ServerResponse } from 'node:http';
import { startHttpServer } from './http-server.ts';

/** A running media server. */
export type MediaServer = Awaited<ReturnType<typeof startMediaServer>>;

type Reply = (response: ServerResponse, count: number) => void;

/** Starts a media server on a free port. */
export async function startMediaServer() {
  const files = new Map<string, { bytes: Buffer; ranges: boolean; sentBytes: number }>();
  const answers = new Map<string, Reply>();
  const counts = new Map<string, number>();
  const { url: origin, close } = await startHttpServer((request, response) => {
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
  return {
    origin,
    /** Serves bytes at a path; with `ranges: false`, each range request receives the whole file. */
    put(path: string, bytes: Buffer, { ranges = true } = {}): string {
      answers.delete(path);
      files.set(path, { bytes, ranges, sentBytes: 0 });
      return `${origin}${path}`;
    },
    /** Sets the response to the nth request for a path (from 1). */
    serve(path: string, answer: Reply): string {
      counts.set(path, 0);
      answers.set(path, answer);
      return `${origin}${path}`;
    },
    /** Returns the number of requests for a path of `serve`. */
    requests: (path: string): number => counts.get(path) ?? 0,
    /** Returns the number of bytes that were sent for a path. */
    sentBytes: (path: string): number => files.get(path)?.sentBytes ?? 0,
    close,
  };
}
