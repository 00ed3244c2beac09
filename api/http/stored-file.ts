/** Sends stored files: whole, a range of the bytes, or only what changed since the last request. */
import { createHash } from 'node:crypto';
import { combineRanges, parse } from 'range-parser';
import { GatewayError } from '../../domain/errors.ts';
import type { ByteRange, Storage } from '../../storage/storage.ts';
import type { Context } from '../context.ts';

/** Descriptions of the statuses of `sendStoredFile`, for an endpoint's `answers`. */
export const fileAnswers = {
  206: 'The requested range of the file.',
  304: 'The file is the one of the `If-None-Match` header.',
} as const;

/**
 * Sends the object under a storage key. Objects never change, so the key determines the `ETag`. A
 * request for several ranges that are not adjacent receives the whole file.
 * @throws GatewayError NOT_FOUND with `missingMessage`; RANGE_NOT_SATISFIABLE
 */
export async function sendStoredFile(
  ctx: Context,
  storage: Pick<Storage, 'size' | 'open'>,
  { key, missingMessage }: { key: string; missingMessage: string },
): Promise<void> {
  const sizeBytes = await storage.size(key);
  if (sizeBytes === null) throw new GatewayError('NOT_FOUND', missingMessage);
  const etag = `"${createHash('sha256').update(key).digest('base64url').slice(0, 22)}"`;
  ctx.set({ 'Accept-Ranges': 'bytes', ETag: etag });
  ctx.status = 200;
  if (ctx.fresh) {
    ctx.status = 304;
    return;
  }
  // `If-Range` asks for a part of the file that the client has begun to download.
  const ifRange = ctx.get('if-range');
  const range = ifRange === '' || ifRange === etag ? findRange(ctx, sizeBytes) : null;
  const object = await storage.open(key, range ?? undefined);
  if (!object) throw new GatewayError('NOT_FOUND', missingMessage);
  ctx.set('Content-Type', object.contentType);
  if (range) {
    ctx.status = 206;
    ctx.set('Content-Range', `bytes ${range.first}-${range.last}/${sizeBytes}`);
  }
  ctx.length = range ? range.last - range.first + 1 : sizeBytes;
  ctx.body = object.stream;
}

/**
 * Returns the range that a request asks for; null if it asks for the whole file.
 * @throws GatewayError RANGE_NOT_SATISFIABLE if the file has no byte of the ranges
 */
function findRange(ctx: Context, sizeBytes: number): ByteRange | null {
  const { type, ranges } = parse(sizeBytes, ctx.get('range'));
  if (type !== 'bytes') return null;
  const [range, ...others] = combineRanges(ranges);
  if (!range) {
    ctx.set('Content-Range', `bytes */${sizeBytes}`);
    throw new GatewayError(
      'RANGE_NOT_SATISFIABLE',
      `The file has ${sizeBytes} bytes; received the range ${ctx.get('range').slice(0, 100)}.`,
    );
  }
  return others.length === 0 ? { first: range.start, last: range.end } : null;
}
