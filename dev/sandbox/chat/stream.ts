/** Streams a script: chunk by chunk, slowly, cut off, or into an error. */
import { setTimeout as sleep } from 'node:timers/promises';
import { once } from 'node:events';
import type { Exchange } from '../http.ts';
import type { Script, Wording } from './script.ts';

/** Sends everything, as fast as the reader takes it. */
export async function streamScript(
  { request, response }: Exchange,
  script: Script,
  wording: Wording,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const send = async (text: string): Promise<void> => {
    if (response.write(text) || gone.signal.aborted) return;
    await once(response, 'drain', gone).catch(() => {});
  };
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  await send(wording.start);
  for (const [index, chunk] of wording.chunks.entries()) {
    if (index === script.cutAfter || gone.signal.aborted) break;
    if (index === script.errorAfter) {
      response.end(wording.error);
      return;
    }
    if (script.chunkDelayMs > 0) await sleep(script.chunkDelayMs, undefined, gone).catch(() => {});
    await send(chunk);
  }
  if (script.cutAfter === null) {
    response.end(wording.end);
    return;
  }
  if (script.cut === 'clean') {
    response.end();
    return;
  }
  // What was written must arrive, and then nothing.
  await sleep(20);
  request.socket.destroy();
}
