/**
 * Mock chat provider that uses very little CPU. It returns the same response to every request, complete or as an event
 * stream, after the delay given in the prompt ("after 50 ms").
 */
import { createServer, type ServerResponse } from 'node:http';
import { announceReady, drainOnExit } from '../../process/run-process.ts';

const parts = Array.from({ length: 20 }, (_, index) => `word${index} `);
const head = { id: 'chatcmpl-bench', created: 1_790_000_000, model: 'bench' };
const usage = { prompt_tokens: 30, completion_tokens: parts.length, total_tokens: 50 };
const whole = JSON.stringify({
  ...head,
  object: 'chat.completion',
  choices: [
    { index: 0, message: { role: 'assistant', content: parts.join('') }, finish_reason: 'stop' },
  ],
  usage,
});

function event(data: object): string {
  return `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...data })}\n\n`;
}

function chunk(delta: object, finish: string | null = null): string {
  return event({ choices: [{ index: 0, delta, finish_reason: finish }] });
}

const first = chunk({ role: 'assistant', content: parts[0] });
const rest =
  parts
    .slice(1)
    .map((content) => chunk({ content }))
    .join('') +
  chunk({}, 'stop') +
  event({ choices: [], usage }) +
  'data: [DONE]\n\n';

function answer(response: ServerResponse, streamed: boolean): void {
  if (!streamed) {
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(whole),
    });
    response.end(whole);
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(first);
  // The first token is sent in a separate packet, as in the streams of real models.
  setImmediate(() => response.end(rest));
}

const server = createServer((request, response) => {
  let body = '';
  request.on('data', (bytes: Buffer) => {
    body += bytes.toString('latin1');
  });
  request.on('end', () => {
    const streamed = body.includes('"stream":true');
    const waitMs = Number(/after (\d+) ms/.exec(body)?.[1] ?? 0);
    if (waitMs === 0) answer(response, streamed);
    else setTimeout(answer, waitMs, response, streamed);
  });
});
server.keepAliveTimeout = 65_000;
server.listen(Number(process.env['PORT']), '127.0.0.1', () => announceReady());
drainOnExit(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}, 2000);
