/** Checks an uploaded object: its type, its size and, for a picture, its number of pixels. */
import { GatewayError } from '../domain/errors.ts';
import { createObjectSource } from './byte-source.ts';
import { checkUploadedFile } from './media-types.ts';
import { completeUpload, type Upload, type UploadsDeps } from './upload-rows.ts';

/**
 * Checks that the object of an upload is an accepted file of the declared size, and completes the upload.
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
    const { contentType } = await checkUploadedFile(createObjectSource(storage, key), sizeBytes);
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
