/** JSON answers compressed for whoever takes gzip. Streams and what is short go as they are. */
import { Stream } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Middleware } from '../context.ts';

/** A shorter answer fits a packet as it is. */
const bytesMin = 1024;
const compress = promisify(gzip);

/** See the file's head; compresses beside the event loop. */
export const gzipAnswers: Middleware = async (ctx, next) => {
  await next();
  const { body } = ctx;
  const isJson = ctx.response.is('json') === 'json';
  if (ctx.respond === false || !isJson || body == null || body instanceof Stream) return;
  ctx.vary('Accept-Encoding');
  if (ctx.method === 'HEAD' || ctx.acceptsEncodings('gzip', 'identity') !== 'gzip') return;
  const bytes = Buffer.isBuffer(body)
    ? body
    : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  if (bytes.length < bytesMin) return;
  ctx.body = await compress(bytes);
  ctx.set('Content-Encoding', 'gzip');
};
