/**
 * Whole answers that take long. Proxies close connections on which no byte arrives for a minute, and
 * many clients then send the request again. After some seconds, the response therefore begins with
 * spaces, which JSON allows before its value.
 */
import { Readable } from 'node:stream';
import { errorFormatters } from '../../domain/error-bodies.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context } from '../context.ts';
import { toShownError } from '../middleware/error-handler.ts';

/** Answer in JSON. */
export interface KeptAnswer {
  /** Headers, which are sent if the answer does not begin with spaces. */
  headers?: Record<string, string>;
  body: string | AsyncIterable<string | Uint8Array>;
  /** Length of the body in bytes; undefined if it is unknown. */
  bytes?: number;
}

/** Headers with which proxies pass on the first bytes at once. */
export const unbuffered = { 'Cache-Control': 'no-cache, no-transform', 'X-Accel-Buffering': 'no' };

/**
 * Sends an answer as JSON when it is ready. After `keepaliveMs` it sends status 200 and then spaces.
 * A later failure is sent as text that is deliberately not valid JSON (`CODE: message`, then the
 * error body), so that clients fail to parse it instead of using it as a result.
 * @throws the error of an answer that fails earlier
 */
export async function sendKeptAlive(
  ctx: Context,
  answer: Promise<KeptAnswer>,
  { keepaliveMs, logger }: { keepaliveMs: number; logger: Logger },
): Promise<void> {
  const { requestId, errorFormat = 'service' } = ctx.state;
  // Prevents an unhandled rejection: if the client disconnects, nothing awaits the answer.
  answer.catch(() => {});
  const ready = await waitAtMost(answer, keepaliveMs);
  async function* yieldWhenReady(): AsyncGenerator<string | Uint8Array> {
    try {
      let late: KeptAnswer | null = null;
      while (!late) {
        yield ' ';
        late = await waitAtMost(answer, keepaliveMs);
      }
      yield* typeof late.body === 'string' ? [late.body] : late.body;
    } catch (error) {
      const failure = toShownError(ctx, error);
      ctx.state.recordRejection?.(failure);
      logger.error({ error, code: failure.code }, 'request.failed_late');
      const body = errorFormatters[errorFormat](failure, requestId);
      yield `${failure.code}: ${failure.message}\n${JSON.stringify(body)}\n`;
    }
  }
  ctx.status = 200;
  ctx.type = 'json';
  if (!ready) {
    ctx.set(unbuffered);
    ctx.body = Readable.from(yieldWhenReady(), { objectMode: false });
    return;
  }
  const { body, headers = {}, bytes } = ready;
  ctx.body = typeof body === 'string' ? body : Readable.from(body, { objectMode: false });
  ctx.set({ 'Content-Type': ctx.response.get('Content-Type'), ...headers });
  if (bytes !== undefined) ctx.length = bytes;
}

/** Waits for a promise at most `waitMs` milliseconds. Returns null if it is still pending. */
async function waitAtMost<Value>(promise: Promise<Value>, waitMs: number): Promise<Value | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(() => resolve(null), waitMs);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
