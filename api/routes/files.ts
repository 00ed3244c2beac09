/** GET /files/…: artifacts of the embedded storage, behind signed URLs; no key needed. */
import type Router from '@koa/router';
import type { SignedUrls } from '../../activities/storage/local-disk.ts';
import type { ByteRange, Storage } from '../../activities/storage/storage.ts';
import { mediaTypeOf } from '../../activities/storage/media-types.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { RequestState } from '../context.ts';

const rangeForm = /^bytes=(\d*)-(\d*)$/;

interface FileRoutesDeps {
  storage: Storage;
  signedUrls: SignedUrls;
}

/** Adds the route of the stored files. */
export function addFileRoutes(router: Router<RequestState>, deps: FileRoutesDeps): void {
  const { storage, signedUrls } = deps;
  router.get('/files/*key', async (ctx) => {
    const key = String(ctx.params['key']);
    // A wrong signature and a missing object give the same answer.
    const sizeBytes = signedUrls.admitsRead(key, ctx.query) ? await storage.size(key) : null;
    if (sizeBytes === null) throw new GatewayError('NOT_FOUND');
    const range = rangeOf(ctx.get('range'), sizeBytes);
    const object = await storage.open(key, range);
    if (!object) throw new GatewayError('NOT_FOUND');
    const disposition = mediaTypeOf(object.contentType) ? 'inline' : 'attachment';
    ctx.set({
      'Content-Type': object.contentType,
      'Accept-Ranges': 'bytes',
      'Cache-Control': 'private, max-age=300, immutable',
      'Content-Disposition': `${disposition}; filename="${key.slice(key.lastIndexOf('/') + 1)}"`,
      // Whoever has the URL may show it on a page; what it shows runs nothing.
      'Cross-Origin-Resource-Policy': 'cross-origin',
      'Content-Security-Policy': "default-src 'none'; sandbox",
    });
    if (range) {
      ctx.status = 206;
      ctx.set('Content-Range', `bytes ${range.first}-${range.last}/${sizeBytes}`);
    }
    ctx.length = range ? range.last - range.first + 1 : sizeBytes;
    ctx.body = object.stream;
  });
}

/** One range of a file; anything else is answered with the whole file (RFC 9110 §14.2). */
function rangeOf(header: string, sizeBytes: number): ByteRange | undefined {
  const [, from = '', to = ''] = rangeForm.exec(header) ?? [];
  if (from === '' && to === '') return undefined;
  const first = from === '' ? Math.max(0, sizeBytes - Number(to)) : Number(from);
  const last = from === '' || to === '' ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1);
  return first <= last ? { first, last } : undefined;
}
