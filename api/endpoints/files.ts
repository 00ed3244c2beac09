/**
 * GET /files/…: serves stored files by signed URL, without an API key. Files in the embedded
 * storage are sent in the response. For an S3 store whose own URLs would expire too early, the
 * response redirects to a fresh URL.
 */
import { z } from 'zod';
import type { ByteRange } from '../../storage/storage.ts';
import { findMediaType } from '../../storage/media-types.ts';
import { GatewayError } from '../../domain/errors.ts';
import { defineEndpoint, rawResponse } from './endpoint.ts';

/** Error message for a valid signed URL of a missing file. Other URLs get a plain NOT_FOUND. */
const missingFileMessage = 'This file was deleted, or has not been uploaded.';
const rangePattern = /^bytes=(\d*)-(\d*)$/;

/** Endpoint that serves the stored files. */
export const files = defineEndpoint({
  route: 'GET /files/*key',
  scope: 'open',
  request: { params: z.object({ key: z.string() }) },
  answer: rawResponse,
  answers: {
    200: 'The file.',
    206: 'The requested range of the file.',
    302: 'The URL in the Location header serves the file for a few minutes.',
  },
  async handle({ ctx, params: { key } }, { storage, signedUrls, redirectUrl }) {
    // If `signedUrls` is undefined, the store serves its own URLs, so every request is rejected
    // here.
    if (!signedUrls?.verifyRead(key, ctx.query)) throw new GatewayError('NOT_FOUND');
    // Allows pages of every origin to embed the file.
    ctx.set('Cross-Origin-Resource-Policy', 'cross-origin');
    if (redirectUrl) {
      ctx.set('Cache-Control', 'private, max-age=60');
      ctx.redirect(await redirectUrl(key));
      return;
    }
    const sizeBytes = await storage.size(key);
    if (sizeBytes === null) throw new GatewayError('NOT_FOUND', missingFileMessage);
    const range = parseRange(ctx.get('range'), sizeBytes);
    const object = await storage.open(key, range);
    if (!object) throw new GatewayError('NOT_FOUND', missingFileMessage);
    const disposition = findMediaType(object.contentType) ? 'inline' : 'attachment';
    ctx.set({
      'Content-Type': object.contentType,
      'Accept-Ranges': 'bytes',
      'Cache-Control': 'private, max-age=300, immutable',
      'Content-Disposition': `${disposition}; filename="${key.slice(key.lastIndexOf('/') + 1)}"`,
      // Prevents scripts in the file from running.
      'Content-Security-Policy': "default-src 'none'; sandbox",
    });
    if (range) {
      ctx.status = 206;
      ctx.set('Content-Range', `bytes ${range.first}-${range.last}/${sizeBytes}`);
    }
    ctx.length = range ? range.last - range.first + 1 : sizeBytes;
    ctx.body = object.stream;
  },
});

/** Returns the byte range of a Range header, or undefined if it is not a single valid range. */
function parseRange(header: string, sizeBytes: number): ByteRange | undefined {
  const [, from = '', to = ''] = rangePattern.exec(header) ?? [];
  if (from === '' && to === '') return undefined;
  const first = from === '' ? Math.max(0, sizeBytes - Number(to)) : Number(from);
  const last = from === '' || to === '' ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1);
  return first <= last ? { first, last } : undefined;
}
