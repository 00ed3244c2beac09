/** `/v1/…` is `/api/v1/…`: clients of OpenAI and Anthropic are pointed at a host and `/v1`. */
import type { Middleware } from '../context.ts';

/** See the file's head. */
export const shortPaths: Middleware = (ctx, next) => {
  if (ctx.path.startsWith('/v1/')) ctx.path = `/api${ctx.path}`;
  return next();
};
