/**
 * Uploads: files that callers send as inputs. Creating a signed URL inserts a row; the row is
 * completed once the object is stored and its first bytes match the declared type. An object that
 * was sent directly to an S3 store is checked when it is first used. An upload counts against the
 * organization's quota as soon as its row exists. A file that no request has used for a long time
 * is deleted.
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { command } from '../platform/database.ts';
import type { IsolationReport } from '../platform/background.ts';
import { contentTypeOf } from './storage.ts';
import { checkObject } from './upload-check.ts';
import { createUploadClaims } from './upload-claims.ts';
import {
  uploadColumns,
  completeUpload,
  createUpload,
  markDeleted,
  removeUpload,
  uploadRow,
  type NewUpload,
  type ReceivedFile,
  type Upload,
  type UploadOwner,
  type UploadsDeps,
} from './upload-rows.ts';
import { sweepUploads } from './upload-sweep.ts';

const roomRow = z.object({ room: z.literal(true) });
const uploadBytesRow = z.object({ upload_bytes: z.number() });

/** File received in a request body and spooled to disk, to be stored as an upload. */
export interface SpooledUpload extends UploadOwner {
  /** File extension, which determines the content type. */
  extension: string;
  /** Path of the spool file; storing the upload moves it into the storage. */
  path: string;
  sizeBytes: number;
  sha256: string;
}

/** Size of a multipart form that is about to be received. */
export interface FormSize {
  organizationId: string;
  bytes: number;
  /** Idempotency-Key of the request; null if it has none. */
  idempotencyKey: string | null;
}

/**
 * Storage quota of an organization and how much of it is used, in bytes. An upload URL that is
 * still valid counts with the maximum size that it allows.
 */
export interface UploadQuota {
  limit: number;
  used: number;
}

/** Creates the functions that manage the uploads of all organizations. */
export function createUploads(deps: UploadsDeps) {
  const { pool } = deps;
  return {
    /** Creates the row of an upload. @throws GatewayError STORAGE_QUOTA_EXCEEDED */
    create: (connection: CommonQueryMethods, upload: NewUpload): Promise<void> =>
      createUpload(connection, upload, deps.bytesMax),
    /** Marks an upload as complete, because its object is in the storage. */
    complete: (id: string, file: ReceivedFile): Promise<void> => completeUpload(pool, id, file),
    /**
     * Stores a file from a request body as a completed upload.
     * @returns the storage key, for the plan or for `discard`
     * @throws GatewayError STORAGE_QUOTA_EXCEEDED
     */
    async storeSpooled({ extension, path, ...file }: SpooledUpload): Promise<string> {
      const id = newId('upload');
      const storageKey = `${file.organizationId}/${id}.${extension}`;
      const contentType = contentTypeOf(storageKey);
      const bytesMax = file.sizeBytes;
      const defaults = { filename: null, purpose: null, expiresAtMs: Date.now() };
      const upload = { ...file, id, storageKey, contentType, bytesMax, ...defaults };
      await createUpload(pool, upload, deps.bytesMax);
      await deps.storage.put(storageKey, path);
      await completeUpload(pool, id, { ...file, contentType });
      return storageKey;
    },
    /** Removes the file of a rejected request. Does nothing if it is already removed. */
    discard: (storageKey: string) => removeUpload(deps, sql.fragment`storage_key = ${storageKey}`),
    /**
     * Deletes an upload for its owner. A deleted upload no longer counts against the quota. Safe to
     * repeat.
     * @returns the time of the deletion (Unix ms); null if the organization has no such upload
     */
    delete: (id: string, organizationId: string) => markDeleted(deps, { id, organizationId }),
    withUploadClaim: createUploadClaims(pool),
    /** Returns the storage quota of an organization and how much of it is used. */
    async readQuota(organizationId: string): Promise<UploadQuota> {
      const used = await pool.oneFirst(sql.type(uploadBytesRow)`
        SELECT upload_bytes FROM organization WHERE id = ${organizationId}`);
      return { limit: deps.bytesMax, used };
    },
    /**
     * Checks that the object is in the storage and has the declared type and size. Removes an
     * object that fails the check; otherwise records the time of use.
     * @returns the content type; null if the file has not been received
     * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, INVALID_REQUEST
     */
    async confirm(upload: Upload): Promise<string | null> {
      const contentType = await checkObject(deps, upload);
      if (contentType === null) return null;
      const { rowCount } = await pool.query(command`
        UPDATE upload SET used_at = clock_timestamp()
        WHERE id = ${upload.id} AND deleted_at IS NULL`);
      return rowCount === 0 ? null : contentType;
    },
    /**
     * Throws if the quota has no room for the files of a request. Does not check a request whose
     * Idempotency-Key is already claimed: it may be a replay, which stores nothing.
     * @throws GatewayError STORAGE_QUOTA_EXCEEDED
     */
    throwIfOverQuota: (form: FormSize): Promise<void> => throwIfOverQuota(deps, form),
    /** Finds an upload by id. Returns null if there is none. */
    find: (id: string): Promise<Upload | null> =>
      pool.maybeOne(sql.type(uploadRow)`SELECT ${uploadColumns} FROM upload
        WHERE id = ${id} AND deleted_at IS NULL`),
    /** Completes or removes expired uploads, and removes unused ones (upload-sweep.ts). */
    sweep: (): Promise<IsolationReport> => sweepUploads(deps),
  };
}
export type Uploads = ReturnType<typeof createUploads>;

async function throwIfOverQuota(
  { pool, bytesMax: quota }: UploadsDeps,
  { organizationId, bytes, idempotencyKey }: FormSize,
): Promise<void> {
  const room = await pool.maybeOneFirst(sql.type(roomRow)`
    SELECT true AS room FROM organization
    WHERE id = ${organizationId} AND (upload_bytes + ${bytes} <= ${quota}
      OR EXISTS (SELECT FROM idempotency_claim WHERE organization_id = organization.id
        AND idempotency_key = ${idempotencyKey}))`);
  if (room === null) throw new GatewayError('STORAGE_QUOTA_EXCEEDED');
}
