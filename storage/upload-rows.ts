/**
 * Creates, completes and deletes the database rows of uploads. A row is created only if the quota
 * has room for the upload, and is deleted together with the object.
 */
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../domain/errors.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import type { AcceptFile } from './picture-conversion.ts';
import type { FileReader } from './file-readers.ts';
import type { Storage } from './storage.ts';

const storageKeyRow = z.object({ storage_key: z.string() });
const deletedRow = z.object({ storage_key: z.string(), deleted_at: z.number() });

/** Row of an upload. */
export const uploadRow = z.object({
  id: z.string(),
  organization_id: z.string(),
  end_user: z.string().nullable(),
  storage_key: z.string(),
  content_type: z.string().nullable(),
  size_bytes: z.number().nullable(),
  /** Format before a conversion that may not have been stored yet; null if there was none. */
  converted_from: z.string().nullable(),
  completed: z.boolean(),
  deleted: z.boolean(),
  /** Whether the organization is suspended; it may not store files then. */
  suspended: z.boolean(),
});

export type Upload = z.infer<typeof uploadRow>;

/** Caller that uploads a file. */
export interface UploadOwner extends FileReader {
  keyId: string;
}

/** Upload to record in the database. */
export interface NewUpload extends UploadOwner {
  id: string;
  storageKey: string;
  /**
   * Content type; null if the caller declared neither a type nor a file name with a known
   * extension.
   */
  contentType: string | null;
  /** Declared size in bytes; null if the caller declared none. */
  sizeBytes: number | null;
  /** Maximum size in bytes, which counts against the quota until the file is received. */
  bytesMax: number;
  convertedFrom: string | null;
  filename: string | null;
  purpose: string | null;
  /** Expiry of the signed URL in Unix milliseconds. */
  expiresAtMs: number;
}

/** Properties of a received file. */
export interface ReceivedFile {
  contentType: string;
  sizeBytes: number;
  /** SHA-256 hash in hexadecimal; null for an object that the caller sent directly to the store. */
  sha256: string | null;
  /** Name of the format that the file had before it was converted; null if it was not converted. */
  convertedFrom: string | null;
}

export interface UploadsDeps {
  pool: DatabasePool;
  storage: Storage;
  acceptFile: AcceptFile;
  logger: Logger;
  /** Storage quota of an organization in bytes. */
  bytesMax: number;
  /** Retention period of an unused file, in milliseconds. */
  retentionMs: number;
}

/** Part of the quota that the uploads with browser tokens of one end user may use: one tenth. */
const endUserShare = 10;

/** Columns of `uploadRow`. */
export const uploadColumns = sql.fragment`id, organization_id, end_user, storage_key, content_type, size_bytes,
  converted_from, completed_at IS NOT NULL AS completed, deleted_at IS NOT NULL AS deleted,
  EXISTS (SELECT FROM organization o WHERE o.id = organization_id AND o.status = 'suspended') AS suspended`;

/**
 * Creates the row of an upload and adds the upload's maximum size to the organization's used bytes, in one
 * statement (uploads.sql). Simultaneous uploads never exceed the quota together, and those with browser tokens
 * of one end user never exceed their share.
 * @throws GatewayError STORAGE_QUOTA_EXCEEDED
 */
export async function createUpload(
  connection: CommonQueryMethods,
  upload: NewUpload,
  quota: number,
): Promise<void> {
  const endUser = upload.token?.endUser ?? null;
  const { rowCount } = await connection.query(command`
    INSERT INTO upload (id, organization_id, key_id, storage_key, content_type, size_bytes,
        bytes_max, converted_from, filename, purpose, expires_at, end_user)
      SELECT ${upload.id}, ${upload.organizationId}, ${upload.keyId}, ${upload.storageKey}, ${upload.contentType},
        ${upload.sizeBytes}, ${upload.bytesMax}, ${upload.convertedFrom}, ${upload.filename}, ${upload.purpose},
        to_timestamp(${upload.expiresAtMs / 1000}), ${endUser}
      WHERE take_upload_room(${upload.organizationId}, ${upload.bytesMax}, ${quota}, ${endUser},
        ${Math.floor(quota / endUserShare)})`);
  if (rowCount === 0) throw new GatewayError('STORAGE_QUOTA_EXCEEDED');
}

/** Returns whether a caller may read an upload. */
export const isReader = ({ organizationId, token }: FileReader, upload: Upload): boolean =>
  upload.organization_id === organizationId && (!token || upload.end_user === token.endUser);

/** Finds an upload by id. Returns null if there is none, or it was deleted. */
export const findUpload = (pool: DatabasePool, id: string): Promise<Upload | null> =>
  pool.maybeOne(sql.type(uploadRow)`SELECT ${uploadColumns} FROM upload
    WHERE id = ${id} AND deleted_at IS NULL`);

/**
 * Records the conversion of an upload before its result is stored. After a crash between the two,
 * the object may have another size than the caller declared.
 */
export async function recordConversion(
  pool: DatabasePool,
  { id, converted_from: recorded }: Upload,
  convertedFrom: string | null,
): Promise<void> {
  if (convertedFrom === recorded) return;
  await pool.query(command`UPDATE upload SET converted_from = ${convertedFrom}
    WHERE id = ${id} AND completed_at IS NULL`);
}

/**
 * Marks an upload as complete, because its object is in the storage. Does nothing if another
 * process has recorded a conversion meanwhile: the properties may be those of the old object.
 */
export async function completeUpload(
  pool: DatabasePool,
  id: string,
  file: ReceivedFile,
): Promise<void> {
  await pool.query(command`UPDATE upload SET content_type = ${file.contentType},
    size_bytes = ${file.sizeBytes}, sha256 = ${file.sha256}, converted_from = ${file.convertedFrom},
    completed_at = clock_timestamp()
    WHERE id = ${id} AND completed_at IS NULL AND deleted_at IS NULL
      AND coalesce(converted_from, ${file.convertedFrom}) IS NOT DISTINCT FROM ${file.convertedFrom}`);
}

/**
 * Deletes the row of an upload and its object in one transaction. The row stays locked until the
 * object is removed, so a concurrent `confirm` waits for the lock, and then finds neither row nor
 * object.
 */
export function removeUpload(
  { pool, storage }: UploadsDeps,
  condition: FragmentSqlToken,
): Promise<void> {
  return pool.transaction(async (connection) => {
    const key = await connection.maybeOneFirst(sql.type(storageKeyRow)`
      DELETE FROM upload WHERE ${condition} RETURNING storage_key`);
    if (key !== null) await storage.remove(key);
  });
}

/**
 * Marks an upload as deleted and removes its object. The row remains until the signed URL has
 * expired, so that the sweep can remove an object that arrives after the deletion.
 * @returns the time of the deletion (Unix ms); null if the organization has no such upload
 */
export function markDeleted(
  { pool, storage }: UploadsDeps,
  { id, organizationId }: { id: string; organizationId: string },
): Promise<number | null> {
  return pool.transaction(async (connection) => {
    const deletedUpload = await connection.maybeOne(sql.type(deletedRow)`
      UPDATE upload SET deleted_at = coalesce(deleted_at, clock_timestamp()), completed_at = NULL,
        size_bytes = NULL, bytes_max = NULL, expires_at = greatest(expires_at, clock_timestamp())
      WHERE id = ${id} AND organization_id = ${organizationId}
      RETURNING storage_key, deleted_at`);
    if (deletedUpload) await storage.remove(deletedUpload.storage_key);
    return deletedUpload?.deleted_at ?? null;
  });
}
