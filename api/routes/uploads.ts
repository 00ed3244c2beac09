/** POST /storage/upload-url (spec §4.5, design §7), and the PUT that the embedded storage takes. */
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import type Router from '@koa/router';
import { z } from 'zod';
import type { SignedUrls } from '../../activities/storage/local-disk.ts';
import {
  fileBytesMax,
  mediaTypeOf,
  mediaTypeOfExtension,
  mediaTypes,
  type MediaType,
} from '../../activities/storage/media-types.ts';
import { writeSpoolFile } from '../../activities/storage/spool.ts';
import { untypedExtension, type Storage } from '../../activities/storage/storage.ts';
import { bytesMaxOf, headBytes, inspectHead } from '../../activities/storage/upload-inspection.ts';
import type { ReceivedFile, Upload, Uploads } from '../../activities/storage/uploads.ts';
import { assert } from '../../domain/assert.ts';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { Context, RequestState } from '../context.ts';
import { authorize } from '../middleware/authenticate.ts';
import { parseBody } from '../middleware/body.ts';
import { bodySchema } from '../middleware/body-schema.ts';

interface UploadUrlDeps {
  storage: Storage;
  uploads: Uploads;
  /** How long the signed URL takes its file. */
  uploadTtlMs: number;
  /** How long the public URL reads. */
  readTtlMs: number;
}

/** Body of upload-url; all of it is optional. */
export const uploadUrlRequest = bodySchema(
  z.strictObject({
    filename: z.string().min(1).max(255).optional(),
    contentType: z.string().min(1).max(127).optional(),
    size: z.int().min(1).optional(),
    purpose: z
      .string()
      .max(64)
      .regex(/^[a-z0-9_-]{1,64}$/, 'must be 1–64 of a–z, 0–9, _ and -')
      .optional(),
  }),
);
type UploadUrlRequest = z.infer<typeof uploadUrlRequest>;

/** Adds the route that makes signed URLs. */
export function addUploadUrlRoute(router: Router<RequestState>, deps: UploadUrlDeps): void {
  router.post('/storage/upload-url', async (ctx) => {
    const { caller } = ctx.state;
    authorize(caller, 'storage:write');
    const wanted = hasBody(ctx) ? await parseBody(ctx, uploadUrlRequest) : {};
    const type = agreedType(wanted);
    const maxBytes = bytesMaxOf(type?.contentType ?? null);
    const sizeBytes = wanted.size ?? null;
    if (sizeBytes !== null && sizeBytes > maxBytes) {
      throw new GatewayError('FILE_TOO_LARGE', `size: at most ${maxBytes} bytes`, {
        details: [{ path: 'size', message: `at most ${maxBytes} bytes` }],
      });
    }
    const fileId = newId('upload');
    const key = `${caller.organizationId}/${fileId}.${type?.extension ?? untypedExtension}`;
    const signed = await deps.storage.signUpload({ key, sizeBytes, ttlMs: deps.uploadTtlMs });
    await deps.uploads.create({
      id: fileId,
      organizationId: caller.organizationId,
      keyId: caller.keyId,
      storageKey: key,
      contentType: type?.contentType ?? null,
      sizeBytes,
      bytesMax: sizeBytes ?? maxBytes,
      filename: wanted.filename ?? null,
      purpose: wanted.purpose ?? null,
      expiresAtMs: signed.expiresAtMs,
    });
    const publicUrl = await deps.storage.urlOf(key, deps.readTtlMs);
    ctx.body = {
      fileId,
      uploadUrl: signed.url,
      method: 'PUT',
      headers: signed.headers,
      publicUrl,
      url: publicUrl,
      storagePath: key,
      maxBytes: sizeBytes ?? maxBytes,
      expiresAt: new Date(signed.expiresAtMs).toISOString(),
    };
  });
}

function hasBody(ctx: Context): boolean {
  return (ctx.request.length ?? 0) > 0 || ctx.get('transfer-encoding') !== '';
}

/** The type that the request names, by itself or by the file's name; undefined when it names none. */
function agreedType(wanted: UploadUrlRequest): MediaType | undefined {
  const accepted = mediaTypes.map((type) => type.contentType).join(', ');
  const refuse = (path: string): never => {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', `${path}: accepted are ${accepted}`, {
      details: [{ path, message: `accepted are ${accepted}` }],
    });
  };
  if (wanted.contentType !== undefined) {
    return mediaTypeOf(wanted.contentType) ?? refuse('contentType');
  }
  const [, extension] = /\.([^./\\]+)$/.exec(wanted.filename ?? '') ?? [];
  if (extension === undefined) return undefined;
  return mediaTypeOfExtension(extension) ?? refuse('filename');
}

interface ReceiverDeps {
  storage: Storage;
  signedUrls: SignedUrls;
  uploads: Uploads;
}

/** A sender that pauses for longer is gone. */
const idleTimeoutMs = 30_000;
/** How long a refused sender may finish sending: it reads the refusal only then. */
const lingerMs = 5000;

/** Adds the route that takes the files of the embedded storage. */
export function addUploadRoute(router: Router<RequestState>, deps: ReceiverDeps): void {
  router.put('/uploads/*key', async (ctx) => {
    try {
      ctx.body = await receive(ctx, String(ctx.params['key']), deps);
    } catch (error) {
      linger(ctx);
      throw error;
    }
  });
}

async function receive(
  ctx: Context,
  key: string,
  deps: ReceiverDeps,
): Promise<Record<string, unknown>> {
  const terms = deps.signedUrls.admitsUpload(key, ctx.query);
  const upload = terms && (await deps.uploads.find(key.split(/[/.]/)[1] ?? ''));
  if (!terms || upload?.storage_key !== key) {
    throw new GatewayError('FORBIDDEN', 'The upload URL is not valid or has expired.');
  }
  const bytesMax = refuseByHeaders(ctx, upload, terms.sizeBytes);
  if (upload.completed || (await deps.storage.size(key)) !== null) {
    throw new GatewayError('ALREADY_UPLOADED');
  }
  return deps.uploads.whileReceiving(upload.id, () =>
    takeFile(ctx, { ...deps, upload, bytesMax, sizeBytes: terms.sizeBytes }),
  );
}

interface Taking extends ReceiverDeps {
  upload: Upload;
  bytesMax: number;
  /** Exactly so many bytes; null when the URL names no size. */
  sizeBytes: number | null;
}

async function takeFile(ctx: Context, deps: Taking): Promise<Record<string, unknown>> {
  const { upload, bytesMax, sizeBytes } = deps;
  const key = upload.storage_key;
  const path = await deps.storage.spoolPath();
  try {
    const file = await spool(ctx, { path, bytesMax, agreedType: upload.content_type });
    if (sizeBytes !== null && file.sizeBytes !== sizeBytes) {
      throw new GatewayError('INVALID_REQUEST', `Send exactly ${sizeBytes} bytes.`);
    }
    const stored = await deps.storage.put(key, path);
    if (stored === 'exists') throw new GatewayError('ALREADY_UPLOADED');
    await deps.uploads.complete(upload.id, file);
    return {
      fileId: upload.id,
      storagePath: key,
      contentType: file.contentType,
      size: file.sizeBytes,
      sha256: file.sha256,
    };
  } finally {
    await rm(path, { force: true });
  }
}

/**
 * What the headers alone rule out.
 * @returns the most bytes that may come.
 */
function refuseByHeaders(ctx: Context, upload: Upload, sizeBytes: number | null): number {
  const encoding = ctx.get('content-encoding');
  const sent = ctx.get('content-type');
  const type = mediaTypeOf(sent);
  const untyped = upload.content_type === null;
  const fits = untyped
    ? type !== undefined || sent === '' || sent === 'application/octet-stream'
    : type?.contentType === upload.content_type;
  if ((encoding && encoding !== 'identity') || !fits) {
    const wanted = upload.content_type ?? 'application/octet-stream';
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', `Send the Content-Type ${wanted}, unencoded.`);
  }
  const length = ctx.request.length;
  if (sizeBytes !== null && length !== sizeBytes) {
    throw new GatewayError('INVALID_REQUEST', `Send the Content-Length ${sizeBytes}.`);
  }
  const bytesMax = sizeBytes ?? bytesMaxOf(upload.content_type);
  if ((length ?? 0) > bytesMax) throw tooLarge(bytesMax);
  return bytesMax;
}

function tooLarge(bytesMax: number): GatewayError {
  return new GatewayError('FILE_TOO_LARGE', `The file has more than ${bytesMax} bytes.`);
}

interface SpoolTerms {
  path: string;
  bytesMax: number;
  agreedType: string | null;
}

/** Streams the body to a file; memory holds only its start, by which the type is known. */
async function spool(ctx: Context, terms: SpoolTerms): Promise<ReceivedFile> {
  const idle = setTimeout(() => ctx.req.destroy(), idleTimeoutMs);
  const hash = createHash('sha256');
  const head: Buffer[] = [];
  const seen: { type?: MediaType } = {};
  let { bytesMax } = terms;
  let sizeBytes = 0;

  async function decideType(): Promise<void> {
    seen.type = await inspectHead(Buffer.concat(head.splice(0)), terms.agreedType);
    bytesMax = Math.min(bytesMax, fileBytesMax[seen.type.medium]);
  }

  async function* watched(): AsyncGenerator<Buffer> {
    // Not destroyed on the way out: a refused sender must still hear why.
    const chunks: AsyncIterable<Buffer> = ctx.req.iterator({ destroyOnReturn: false });
    for await (const bytes of chunks) {
      idle.refresh();
      sizeBytes += bytes.length;
      hash.update(bytes);
      if (!seen.type) {
        head.push(bytes);
        if (sizeBytes >= headBytes) await decideType();
      }
      if (sizeBytes > bytesMax) throw tooLarge(bytesMax);
      yield bytes;
    }
    if (!seen.type) await decideType();
    if (sizeBytes > bytesMax) throw tooLarge(bytesMax);
  }

  try {
    await writeSpoolFile(terms.path, watched);
  } catch (error) {
    if (error instanceof GatewayError || !ctx.req.destroyed) throw error;
    throw new GatewayError('INVALID_REQUEST', 'The upload broke off.', { cause: error });
  } finally {
    clearTimeout(idle);
  }
  assert(seen.type, 'a file that was received has a type');
  return { contentType: seen.type.contentType, sizeBytes, sha256: hash.digest('hex') };
}

/** Lets a refused sender finish, briefly; then the connection is cut. */
function linger(ctx: Context): void {
  if (ctx.req.complete || ctx.req.destroyed) return;
  ctx.req.resume();
  const timer = setTimeout(() => ctx.req.destroy(), lingerMs);
  timer.unref();
  ctx.req.once('end', () => clearTimeout(timer));
}
