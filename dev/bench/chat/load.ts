/** Callers of a chat endpoint, cheap enough not to be what is measured. */
import { Pool, type Dispatcher } from 'undici';
import { runClosedLoop, type Load, type LoopResult } from '../closed-loop.ts';

/** Where a chat is asked for, and as whom. */
export interface ChatTarget {
  origin: string;
  path: string;
  headers: Record<string, string>;
  model: string;
}

/** Runs closed loops against one target. */
export interface ChatLoad {
  /** Latency is the time to the whole answer; of streams, to the first token. */
  run: (load: Load, stream: boolean) => Promise<LoopResult>;
  stop: () => Promise<void>;
}

/** What a first token looks like in a stream; keepalives and roles are none. */
const token = '"content":"word0';
const streamEnd = 'data: [DONE]';

/** Opens connections to a target. */
export function openChatLoad(target: ChatTarget): ChatLoad {
  const pool = new Pool(target.origin, { connections: 512, keepAliveTimeout: 60_000 });
  const prompt = 'Tell me about lighthouses, and why they stand where they stand.';
  const request = (stream: boolean): Dispatcher.DispatchOptions => ({
    method: 'POST',
    path: target.path,
    headers: { ...target.headers, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: target.model,
      messages: [
        { role: 'system', content: 'You are brief.' },
        { role: 'user', content: prompt },
      ],
      max_tokens: 100,
      ...(stream && { stream: true }),
    }),
  });
  const requests = { whole: request(false), streamed: request(true) };

  return {
    async run(load, stream) {
      const firstTokensMs: number[] = [];
      const job = stream
        ? async () => {
            firstTokensMs.push(await ask(pool, requests.streamed, streamEnd));
          }
        : async () => {
            await ask(pool, requests.whole, '"finish_reason":"stop"');
          };
      const result = await runClosedLoop(job, load);
      return stream ? { ...result, latenciesMs: firstTokensMs } : result;
    },
    stop: () => pool.destroy(),
  };
}

/** One exchange; resolves to the time until the first token, and rejects unless `last` was in it. */
function ask(pool: Pool, options: Dispatcher.DispatchOptions, last: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    let firstMs: number | null = null;
    let status = 0;
    let text = '';
    pool.dispatch(options, {
      // Without it undici takes this for a handler of its former kind, and calls nothing here.
      onRequestStart() {},
      onResponseStart(_controller, statusCode) {
        status = statusCode;
      },
      onResponseData(_controller, bytes) {
        text += bytes.toString('latin1');
        if (firstMs === null && text.includes(token)) firstMs = performance.now() - startedAt;
      },
      onResponseEnd() {
        if (status === 200 && firstMs !== null && text.includes(last)) resolve(firstMs);
        else reject(new Error(`${status} ${text.slice(0, 200)}`));
      },
      onResponseError(_controller, error) {
        reject(error);
      },
    });
  });
}
