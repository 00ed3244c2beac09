/** Streams a response, applying its delays and faults. */
import { setTimeout as sleep } from 'node:timers/promises';
import { once } from 'node:events';
import type { Exchange } from '../http.ts';
import type { Script, StreamEvents } from './script.ts';

/** Sends the events as fast as the caller reads them. */
export async function streamScript(
  { request, response }: Exchange,
  script: Script,
  events: StreamEvents,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const send = async (text: string): Promise<void> => {
    if (response.write(text) || gone.signal.aborted) return;
    await once(response, 'drain', gone).catch(() => {});
  };
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  await send(events.start);
  for (const [index, chunk] of events.chunks.entries()) {
    if (index === script.cutAfter || gone.signal.aborted) break;
    if (index === script.errorAfter) {
      response.end(events.error);
      return;
    }
    if (script.chunkDelayMs > 0) await sleep(script.chunkDelayMs, undefined, gone).catch(() => {});
    await send(chunk);
  }
  if (script.cutAfter === null) {
    response.end(events.end);
    return;
  }
  if (script.cut === 'clean') {
    response.end();
    return;
  }
  // Let the sent chunks arrive before the connection closes.
  await sleep(20);
  request.socket.destroy();
}
