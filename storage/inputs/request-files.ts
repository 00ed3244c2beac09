/**
 * Receives files from a request body. A file is written to the spool first, and stored as an upload
 * once the request's Idempotency-Key is claimed.
 */
import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { fieldError } from '../../domain/errors.ts';
import { writeSpoolFile } from '../spool.ts';
import type { Storage } from '../storage.ts';
import { readAccepted, UnusableFile, type MediaType, type MediaUse } from '../media-types.ts';
import { createFileSource } from '../byte-source.ts';
import type { UploadOwner } from '../upload-rows.ts';
import type { Uploads } from '../uploads.ts';
import { measureRecording } from './recordings.ts';

/**
 * File part of a multipart form. When the stream has ended, `truncated` is true if the part
 * exceeded the size limit.
 */
interface FilePart {
  field: string;
  stream: Readable & { truncated: boolean };
}

/**
 * File received in a request body. It stays in the spool until `store` moves it into the storage.
 */
export interface ReceivedFile {
  /** File id derived from the bytes, so that a retried request has the same id. */
  contentId: string;
  type: MediaType;
  sizeBytes: number;
  /** Duration in seconds; null if the file was not received as a recording. */
  durationSeconds: number | null;
  /**
   * Stores the file as an upload of its owner.
   * @throws GatewayError STORAGE_QUOTA_EXCEEDED
   */
  store: () => Promise<{ fileId: string; storageKey: string }>;
  /** Removes the file from the spool, and from the storage if it was stored. */
  discard: () => Promise<void>;
}

/**
 * Properties of a spooled file. `durationSeconds` is null if the file was not received as a
 * recording.
 */
interface FileProperties {
  type: MediaType;
  durationSeconds: number | null;
}

interface RequestFilesDeps {
  storage: Storage;
  uploads: Pick<Uploads, 'storeSpooled' | 'discard' | 'throwIfOverQuota'>;
}

/** Creates the functions that receive the files of a multipart form. */
export function createRequestFiles({ storage, uploads }: RequestFilesDeps) {
  async function receive(
    { field, stream }: FilePart,
    owner: UploadOwner,
    inspect: (path: string) => Promise<FileProperties>,
  ): Promise<ReceivedFile> {
    const path = await storage.spoolPath();
    try {
      const digest = await writeSpoolFile(path, stream);
      if (stream.truncated) throw fieldError('FILE_TOO_LARGE', field, 'the file is too large');
      const { type, durationSeconds } = await inspect(path);
      const { organizationId, keyId } = owner;
      let storageKey: string | null = null;
      return {
        contentId: `file_${digest.sha256.slice(0, 32)}`,
        type,
        sizeBytes: digest.sizeBytes,
        durationSeconds,
        async store() {
          storageKey = await uploads.storeSpooled({
            organizationId,
            keyId,
            extension: type.extension,
            path,
            ...digest,
          });
          const [, name = ''] = storageKey.split('/');
          return { fileId: name.split('.')[0] ?? '', storageKey };
        },
        async discard() {
          await rm(path, { force: true });
          if (storageKey !== null) await uploads.discard(storageKey);
        },
      };
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    }
  }

  return {
    /** Checks the storage quota before files are received (`Uploads.throwIfOverQuota`). */
    throwIfOverQuota: uploads.throwIfOverQuota,

    /**
     * Receives a picture. Errors name the field of the part.
     * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
     */
    receivePicture: (part: FilePart, owner: UploadOwner): Promise<ReceivedFile> =>
      receive(part, owner, (path) => inspectFile(path, part.field, 'picture')),

    /**
     * Receives a file of any medium. Errors name the field of the part.
     * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
     */
    receiveMedia: (part: FilePart, owner: UploadOwner): Promise<ReceivedFile> =>
      receive(part, owner, (path) => inspectFile(path, part.field)),

    /**
     * Receives a recording. Errors name the field of the part.
     * @throws GatewayError INVALID_REQUEST if it is not a readable audio file, FILE_TOO_LARGE
     */
    receiveRecording: (part: FilePart, owner: UploadOwner): Promise<ReceivedFile> =>
      receive(part, owner, (path) => measureRecording(createFileSource(path), part.field)),
  };
}
export type RequestFiles = ReturnType<typeof createRequestFiles>;

/**
 * Reads the type of a file, and checks that it can be used.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE with the field
 */
async function inspectFile(path: string, field: string, use?: MediaUse): Promise<FileProperties> {
  try {
    const { type } = await readAccepted(createFileSource(path), use);
    return { type, durationSeconds: null };
  } catch (error) {
    if (!(error instanceof UnusableFile)) throw error;
    throw fieldError(error.code, field, error.message);
  }
}
