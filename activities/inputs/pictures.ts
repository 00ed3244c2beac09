/**
 * Pictures that come with a request: kept as uploads, and named by their ids from then on. What came with
 * a request that is refused is to be discarded (`Uploads.discard`).
 */
import { open, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { writeSpoolFile } from '../storage/spool.ts';
import type { Storage } from '../storage/storage.ts';
import { headBytes, inspectHead } from '../storage/upload-inspection.ts';
import type { UploadOwner, Uploads } from '../storage/uploads.ts';

/** A file on its way in; `truncated` tells at its end that it had more bytes than it may have. */
export interface UploadedFile {
  field: string;
  stream: Readable & { truncated: boolean };
}

/** A picture that came with its request. */
export interface KeptPicture {
  fileId: string;
  storageKey: string;
  /** Of its bytes, in hex. */
  sha256: string;
}

/** Pictures as inputs. */
export interface Pictures {
  /**
   * Keeps an uploaded picture; `field` names it in errors.
   * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, STORAGE_QUOTA_EXCEEDED
   */
  keep: (file: UploadedFile, owner: UploadOwner) => Promise<KeptPicture>;
}

/** The refusal of a file that was cut. */
export function fileTooLarge(field: string): GatewayError {
  return fieldError('FILE_TOO_LARGE', field, 'the file is too large');
}

/** See `Pictures`. */
export function createPictures(deps: { storage: Storage; uploads: Uploads }): Pictures {
  const { storage, uploads } = deps;
  return {
    async keep({ field, stream }, { organizationId, keyId }) {
      const path = await storage.spoolPath();
      try {
        const file = await writeSpoolFile(path, stream);
        if (stream.truncated) throw fileTooLarge(field);
        const { extension, medium } = await inspectHead(await headOf(path), null);
        if (medium !== 'image') {
          throw fieldError('UNSUPPORTED_MEDIA_TYPE', field, 'must be a picture');
        }
        const storageKey = await uploads.keep({ organizationId, keyId, extension, path, ...file });
        const [, name = ''] = storageKey.split('/');
        return { fileId: name.split('.')[0] ?? '', storageKey, sha256: file.sha256 };
      } finally {
        await rm(path, { force: true });
      }
    },
  };
}

async function headOf(path: string): Promise<Buffer> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
