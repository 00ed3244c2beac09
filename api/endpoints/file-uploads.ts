/** PUT /uploads/…: receives uploads to the embedded storage by signed URL, without an API key. */
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { z } from 'zod';
import { findMediaType, findUploadBytesMax } from '../../storage/media-types.ts';
import { acceptUpload, type AcceptFile } from '../../storage/picture-conversion.ts';
import { digestStream, writeSpoolFile } from '../../storage/spool.ts';
import type { ReceivedFile, Upload } from '../../storage/upload-rows.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Composition } from '../composition.ts';
import type { Context } from '../context.ts';
import { readChunks, formTimeoutMs } from '../http/connections.ts';
import { countBytes, ownerOf } from '../middleware/request-shares.ts';
import { defineEndpoint } from './endpoint.ts';

type ReceiverDeps = Pick<Composition, 'storage' | 'signedUrls' | 'uploads' | 'acceptFile'>;

const receivedFile = z.object({
  fileId: z.string(),
  storagePath: z.string(),
  contentType: z.string(),
  size: z.int(),
  sha256: z.string().nullable(),
  convertedFrom: z.string().nullable(),
});

/** Endpoint that receives uploads to the embedded storage. */
export const uploads = defineEndpoint({
  route: 'PUT /uploads/*key',
  scope: 'open',
  request: { params: z.object({ key: z.string() }) },
  response: receivedFile,
  handle: ({ ctx, params: { key } }, services) => receiveUpload(ctx, key, services),
});

async function receiveUpload(
  ctx: Context,
  key: string,
  deps: ReceiverDeps,
): Promise<z.infer<typeof receivedFile>> {
  if (!deps.signedUrls) throw new GatewayError('NOT_FOUND');
  const signedTerms = deps.signedUrls.verifyUpload(key, ctx.query);
  const upload = signedTerms && (await deps.uploads.find(key.split(/[/.]/)[1] ?? ''));
  if (!signedTerms || upload?.storage_key !== key) {
    throw new GatewayError('FORBIDDEN', 'The upload URL is not valid or has expired.');
  }
  if (upload.suspended) throw new GatewayError('ORGANIZATION_SUSPENDED');
  const bytesMax = checkHeaders(ctx, upload, signedTerms.sizeBytes);
  if (upload.completed || (await deps.storage.size(key)) !== null) {
    throw new GatewayError('ALREADY_UPLOADED');
  }
  return deps.uploads.withUploadClaim(upload.id, () =>
    receiveFile(ctx, { ...deps, upload, bytesMax, sizeBytes: signedTerms.sizeBytes }),
  );
}

interface ReceiveOptions extends ReceiverDeps {
  upload: Upload;
  bytesMax: number;
  /** Required size of the file in bytes; null if the URL allows any size. */
  sizeBytes: number | null;
}

async function receiveFile(
  ctx: Context,
  deps: ReceiveOptions,
): Promise<z.infer<typeof receivedFile>> {
  const { upload, bytesMax, sizeBytes } = deps;
  const key = upload.storage_key;
  const path = await deps.storage.spoolPath();
  try {
    const owner = ownerOf(upload.organization_id, upload.end_user !== null);
    const { acceptFile } = deps;
    const file = await spoolBody(ctx, { path, owner, bytesMax, sizeBytes, acceptFile });
    await deps.uploads.recordConversion(upload, file.convertedFrom);
    const putResult = await deps.storage.put(key, path);
    if (putResult === 'exists') throw new GatewayError('ALREADY_UPLOADED');
    await deps.uploads.complete(upload.id, file);
    return {
      fileId: upload.id,
      storagePath: key,
      contentType: file.contentType,
      size: file.sizeBytes,
      sha256: file.sha256,
      convertedFrom: file.convertedFrom,
    };
  } finally {
    await rm(path, { force: true });
  }
}

/**
 * Checks the headers of an upload, and returns the maximum size of its file in bytes.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, FILE_TOO_LARGE
 */
function checkHeaders(ctx: Context, upload: Upload, sizeBytes: number | null): number {
  const encoding = ctx.get('content-encoding');
  const contentType = ctx.get('content-type');
  // An upload without a declared type may have any; a declared one is part of the signed terms.
  const isExpectedType =
    upload.content_type === null || findMediaType(contentType)?.contentType === upload.content_type;
  if ((encoding && encoding !== 'identity') || !isExpectedType) {
    const expected = upload.content_type ?? 'application/octet-stream';
    throw new GatewayError(
      'UNSUPPORTED_MEDIA_TYPE',
      `Send the Content-Type ${expected} without a Content-Encoding.`,
    );
  }
  const length = ctx.request.length;
  if (sizeBytes !== null && length !== sizeBytes) {
    throw new GatewayError('INVALID_REQUEST', `The Content-Length must be ${sizeBytes} bytes.`);
  }
  const bytesMax = sizeBytes ?? findUploadBytesMax(upload.content_type);
  if ((length ?? 0) > bytesMax) throw fileTooLargeError(bytesMax);
  return bytesMax;
}

function fileTooLargeError(bytesMax: number): GatewayError {
  return new GatewayError('FILE_TOO_LARGE', `The file is larger than ${bytesMax} bytes.`);
}

interface SpoolOptions {
  path: string;
  owner: string;
  bytesMax: number;
  /** Required size of the body in bytes; null if any is allowed. */
  sizeBytes: number | null;
  acceptFile: AcceptFile;
}

/** Streams the body to a file, checks the file, and converts it if no provider reads it. */
async function spoolBody(
  ctx: Context,
  { path, owner, bytesMax, sizeBytes: requiredBytes, acceptFile }: SpoolOptions,
): Promise<ReceivedFile> {
  let sizeBytes = 0;

  async function* readLimited(): AsyncGenerator<Buffer> {
    for await (const bytes of readChunks(ctx.req, formTimeoutMs)) {
      countBytes(ctx, { kind: 'spool', bytes: bytes.length, owner });
      sizeBytes += bytes.length;
      if (sizeBytes > bytesMax) throw fileTooLargeError(bytesMax);
      yield bytes;
    }
  }

  try {
    const digest = await writeSpoolFile(path, readLimited);
    if (requiredBytes !== null && digest.sizeBytes !== requiredBytes) {
      throw new GatewayError(
        'INVALID_REQUEST',
        `The file must have exactly ${requiredBytes} bytes.`,
      );
    }
    const { type, convertedFrom } = await acceptUpload(acceptFile, path);
    const file = convertedFrom === null ? digest : await digestStream(createReadStream(path));
    return { contentType: type.contentType, convertedFrom, ...file };
  } catch (error) {
    if (error instanceof GatewayError || !ctx.req.destroyed) throw error;
    throw new GatewayError(
      'INVALID_REQUEST',
      'The upload ended before the whole file was received.',
      { cause: error },
    );
  }
}
