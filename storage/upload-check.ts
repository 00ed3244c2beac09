/** Checks an uploaded object: its type, its size and, for a picture, its number of pixels. */
import { buffer } from 'node:stream/consumers';
import { GatewayError } from '../domain/errors.ts';
import { headBytes, inspectHead } from './media-head.ts';
import { fileBytesMax } from './media-types.ts';
import { completeUpload, type Upload, type UploadsDeps } from './upload-rows.ts';

/**
 * Checks that the object of an upload has the declared type and size, and completes the upload.
 * Removes an object that fails the check.
 * @returns the content type; null if the file has not been received
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, INVALID_REQUEST
 */
export async function checkObject(
  { pool, storage }: UploadsDeps,
  upload: Upload,
): Promise<string | null> {
  if (upload.completed) return upload.content_type;
  const { storage_key: key, size_bytes: declaredBytes } = upload;
  const sizeBytes = await storage.size(key);
  if (sizeBytes === null) return null;
  try {
    // S3 stores reject a range request for an empty object, which has no allowed type anyway.
    const object = sizeBytes > 0 && (await storage.open(key, { first: 0, last: headBytes - 1 }));
    const head = object ? await buffer(object.stream) : Buffer.alloc(0);
    const { medium, contentType } = await inspectHead(head, upload.content_type);
    if (sizeBytes > fileBytesMax[medium]) throw new GatewayError('FILE_TOO_LARGE');
    if (declaredBytes !== null && declaredBytes !== sizeBytes) {
      throw new GatewayError('INVALID_REQUEST', 'The file does not have the declared size.');
    }
    await completeUpload(pool, upload.id, { contentType, sizeBytes, sha256: null });
    return contentType;
  } catch (error) {
    if (error instanceof GatewayError) await storage.remove(key);
    throw error;
  }
}
