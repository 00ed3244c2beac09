/** Minimal gateway in Node: forwards each request to the upstream, and returns the response unchanged. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Pool } from 'undici';
import { announceReady, drainOnExit } from '../../process/run-process.ts';

const pool = new Pool(process.env['UPSTREAM_URL'] ?? '', { connections: 512 });

async function relay(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const bytes of request as AsyncIterable<Buffer>) chunks.push(bytes);
  const answer = await pool.request({
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { 'content-type': 'application/json' },
    body: Buffer.concat(chunks),
  });
  response.writeHead(answer.statusCode, {
    'content-type': String(answer.headers['content-type']),
    ...(answer.headers['content-length'] !== undefined && {
      'content-length': String(answer.headers['content-length']),
    }),
  });
  answer.body.pipe(response);
}

const server = createServer((request, response) => {
  relay(request, response).catch(() => response.destroy());
});
server.keepAliveTimeout = 65_000;
server.listen(Number(process.env['PORT']), '127.0.0.1', () => announceReady());
drainOnExit(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await pool.destroy();
}, 2000);
