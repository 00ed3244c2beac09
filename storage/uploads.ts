/**
 * Uploads: files that callers send as inputs. A signed URL creates a row; the row is completed when
 * the object is in the storage and its first bytes have the agreed type. Objects that were sent
 * directly to an S3 store are checked at their first use. Bytes count toward the organization's
 * quota from the row on; a file that no request has named for long is removed.
 */
import { buffer } from 'node:stream/consumers';
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import { forEachAlone, type Isolated } from '../platform/isolation.ts';
import { fileBytesMax, headBytes, inspectHead } from './media.ts';
import { contentTypeOf, type Storage } from './storage.ts';
import { createReceipts } from './upload-receipts.ts';

const roomRow = z.object({ room: z.literal(true) });
const uploadBytesRow = z.object({ upload_bytes: z.number() });
const storageKeyRow = z.object({ storage_key: z.string() });
const deletedRow = z.object({ storage_key: z.string(), deleted_at: z.number() });

/** A recorded upload. */
const uploadRow = z.object({
  id: z.string(),
  organization_id: z.string(),
  storage_key: z.string(),
  content_type: z.string().nullable(),
  size_bytes: z.number().nullable(),
  completed: z.boolean(),
  deleted: z.boolean(),
});

export type Upload = z.infer<typeof uploadRow>;

/** Owner of a file, and the key that sent it. */
export interface UploadOwner {
  organizationId: string;
  keyId: string;
}

interface NewUpload extends UploadOwner {
  id: string;
  storageKey: string;
  /** Null if the caller named neither a content type nor a file name with a known extension. */
  contentType: string | null;
  sizeBytes: number | null;
  /** Announced limit in bytes, which counts toward the quota until the file has arrived. */
  bytesMax: number;
  filename: string | null;
  purpose: string | null;
  /** Unix milliseconds. */
  expiresAtMs: number;
}

/** Properties of the received file. */
export interface ReceivedFile {
  contentType: string;
  sizeBytes: number;
  /** Null for objects that were sent directly to the store. */
  sha256: string | null;
}

/** A file that came with a request, on its way into the storage. */
export interface BroughtFile extends UploadOwner {
  /** Extension of its type. */
  extension: string;
  /** Path in the spool, from where the file is moved. */
  path: string;
  sizeBytes: number;
  sha256: string;
}

/** Stored bytes of an organization; the sizes that open URLs permit are included. */
export interface UploadQuota {
  limit: number;
  used: number;
}

interface UploadsDeps {
  pool: DatabasePool;
  storage: Storage;
  logger: Logger;
  /** Quota of an organization. */
  bytesMax: number;
  /** Retention of a file after its last use. */
  keptMs: number;
}

/** Grace period after which an expired URL cannot receive an upload any more. */
const sweepAfterMs = 3_600_000;
/** Uploads of each kind in one pass. */
const sweepCountMax = 100;

const columns = sql.fragment`id, organization_id, storage_key, content_type, size_bytes,
  completed_at IS NOT NULL AS completed, deleted_at IS NOT NULL AS deleted`;

/** Makes the uploads of all organizations. */
export function createUploads(deps: UploadsDeps) {
  const { pool } = deps;
  return {
    /**
     * Creates an upload.
     * @throws GatewayError STORAGE_QUOTA_EXCEEDED
     */
    create: (upload: NewUpload): Promise<void> => create(deps, upload),
    /** Records that the object was received. */
    complete: (id: string, file: ReceivedFile): Promise<void> => complete(pool, id, file),
    /**
     * Stores a file that came with a request, as a completed upload.
     * @returns its storage key, for the plan or for `discard`
     * @throws GatewayError STORAGE_QUOTA_EXCEEDED
     */
    async keep({ extension, path, ...file }: BroughtFile): Promise<string> {
      const id = newId('upload');
      const storageKey = `${file.organizationId}/${id}.${extension}`;
      const contentType = contentTypeOf(storageKey);
      const bytesMax = file.sizeBytes;
      const unnamed = { filename: null, purpose: null, expiresAtMs: Date.now() };
      await create(deps, { ...file, id, storageKey, contentType, bytesMax, ...unnamed });
      await deps.storage.put(storageKey, path);
      await complete(pool, id, { ...file, contentType });
      return storageKey;
    },
    /** Removes the stored file of a refused request; a missing file is no error. */
    discard: (storageKey: string) => remove(deps, sql.fragment`storage_key = ${storageKey}`),
    /**
     * Deletes an upload for its owner; it no longer counts. Repeating it changes nothing.
     * @returns the time of the deletion (Unix ms); null if the organization has no such upload
     */
    delete: (id: string, organizationId: string) => markDeleted(deps, { id, organizationId }),
    whileReceiving: createReceipts(pool),
    /** Returns the storage that the organization uses. */
    async quotaOf(organizationId: string): Promise<UploadQuota> {
      const used = await pool.oneFirst(sql.type(uploadBytesRow)`
        SELECT upload_bytes FROM organization WHERE id = ${organizationId}`);
      return { limit: deps.bytesMax, used };
    },
    /**
     * Makes sure that the object exists and has the agreed type and size; otherwise it is removed.
     * A confirmed file counts as used now.
     * @returns its content type; null if it has not been received yet
     * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, INVALID_REQUEST
     */
    async confirm(upload: Upload): Promise<string | null> {
      const contentType = await look(deps, upload);
      if (contentType === null) return null;
      const { rowCount } = await pool.query(command`
        UPDATE upload SET used_at = clock_timestamp() WHERE id = ${upload.id}`);
      return rowCount === 0 ? null : contentType;
    },
    /** Checks the storage quota for further bytes. @throws GatewayError STORAGE_QUOTA_EXCEEDED */
    requireRoom: (organizationId: string, bytes: number): Promise<void> =>
      requireRoom(deps, { organizationId, bytes }),
    /** Finds an upload by id; null if there is none. */
    find: (id: string): Promise<Upload | null> =>
      pool.maybeOne(sql.type(uploadRow)`SELECT ${columns} FROM upload
        WHERE id = ${id} AND deleted_at IS NULL`),
    /**
     * Confirms or deletes uploads whose URL expired an hour ago, and removes files that no request
     * has named for long.
     */
    sweep: (): Promise<Isolated> => sweep(deps),
  };
}
export type Uploads = ReturnType<typeof createUploads>;

/** @throws GatewayError STORAGE_QUOTA_EXCEEDED if the organization has less room than `bytes` */
async function requireRoom(
  { pool, bytesMax: quota }: UploadsDeps,
  { organizationId, bytes }: { organizationId: string; bytes: number },
): Promise<void> {
  const room = await pool.maybeOneFirst(sql.type(roomRow)`
    SELECT true AS room FROM organization
    WHERE id = ${organizationId} AND upload_bytes + ${bytes} <= ${quota}`);
  if (room === null) throw new GatewayError('STORAGE_QUOTA_EXCEEDED');
}

/**
 * One statement, which waits for other uploads of the organization: of two that fit only alone, one
 * is refused.
 */
async function create({ pool, bytesMax: quota }: UploadsDeps, upload: NewUpload): Promise<void> {
  const { rowCount } = await pool.query(command`
    WITH room AS (
      UPDATE organization SET upload_bytes = upload_bytes + ${upload.bytesMax}
      WHERE id = ${upload.organizationId} AND upload_bytes + ${upload.bytesMax} <= ${quota}
      RETURNING id)
    INSERT INTO upload (id, organization_id, key_id, storage_key, content_type, size_bytes,
        bytes_max, filename, purpose, expires_at)
      SELECT ${upload.id}, room.id, ${upload.keyId}, ${upload.storageKey}, ${upload.contentType},
        ${upload.sizeBytes}, ${upload.bytesMax}, ${upload.filename}, ${upload.purpose},
        to_timestamp(${upload.expiresAtMs / 1000}) FROM room`);
  if (rowCount === 0) throw new GatewayError('STORAGE_QUOTA_EXCEEDED');
}

async function complete(pool: DatabasePool, id: string, file: ReceivedFile): Promise<void> {
  await pool.query(command`UPDATE upload SET content_type = ${file.contentType},
    size_bytes = ${file.sizeBytes}, sha256 = ${file.sha256}, completed_at = clock_timestamp()
    WHERE id = ${id} AND completed_at IS NULL AND deleted_at IS NULL`);
}

/**
 * The row is locked while the object is removed, so a request that names the file finds neither.
 */
function remove({ pool, storage }: UploadsDeps, condition: FragmentSqlToken): Promise<void> {
  return pool.transaction(async (connection) => {
    const key = await connection.maybeOneFirst(sql.type(storageKeyRow)`
      DELETE FROM upload WHERE ${condition} RETURNING storage_key`);
    if (key !== null) await storage.remove(key);
  });
}

/**
 * Removes an upload as `remove` does; the row stays until no signed URL can receive a file any
 * more.
 */
function markDeleted(
  { pool, storage }: UploadsDeps,
  { id, organizationId }: { id: string; organizationId: string },
): Promise<number | null> {
  return pool.transaction(async (connection) => {
    const deleted = await connection.maybeOne(sql.type(deletedRow)`
      UPDATE upload SET deleted_at = coalesce(deleted_at, clock_timestamp()), completed_at = NULL,
        size_bytes = NULL, bytes_max = NULL, expires_at = greatest(expires_at, clock_timestamp())
      WHERE id = ${id} AND organization_id = ${organizationId}
      RETURNING storage_key, deleted_at`);
    if (deleted) await storage.remove(deleted.storage_key);
    return deleted?.deleted_at ?? null;
  });
}

async function sweep(deps: UploadsDeps): Promise<Isolated> {
  const { pool, logger, keptMs } = deps;
  const unused = sql.fragment`completed_at IS NOT NULL
    AND coalesce(used_at, completed_at) < clock_timestamp() - ${keptMs} * interval '1 millisecond'`;
  const expired = await pool.any(sql.type(uploadRow)`SELECT ${columns} FROM upload
    WHERE completed_at IS NULL
      AND expires_at < clock_timestamp() - ${sweepAfterMs} * interval '1 millisecond'
    ORDER BY expires_at LIMIT ${sweepCountMax}`);
  const old = await pool.any(sql.type(uploadRow)`SELECT ${columns} FROM upload
    WHERE ${unused} ORDER BY coalesce(used_at, completed_at) LIMIT ${sweepCountMax}`);
  const onEach = { subject: 'upload', logger };
  const forgotten = await forEachAlone(expired, (upload) => confirmOrForget(deps, upload), onEach);
  const removed = await forEachAlone(
    old,
    ({ id }) => remove(deps, sql.fragment`id = ${id} AND ${unused}`),
    onEach,
  );
  return { done: forgotten.done + removed.done, skipped: forgotten.skipped + removed.skipped };
}

async function confirmOrForget(deps: UploadsDeps, upload: Upload): Promise<void> {
  const { id, deleted } = upload;
  if (deleted) return remove(deps, sql.fragment`id = ${id}`);
  const there = await look(deps, upload).catch((error: unknown) => {
    if (error instanceof GatewayError) return null;
    throw error;
  });
  if (there === null) await remove(deps, sql.fragment`id = ${id} AND completed_at IS NULL`);
}

/**
 * Returns the content type of an object that has the agreed type and size; null if it has not been
 * received yet.
 */
async function look({ pool, storage }: UploadsDeps, upload: Upload): Promise<string | null> {
  if (upload.completed) return upload.content_type;
  const { storage_key: key, size_bytes: agreedBytes } = upload;
  const sizeBytes = await storage.size(key);
  if (sizeBytes === null) return null;
  try {
    const object = await storage.open(key, { first: 0, last: headBytes - 1 });
    const head = object ? await buffer(object.stream) : Buffer.alloc(0);
    const { medium, contentType } = await inspectHead(head, upload.content_type);
    if (sizeBytes > fileBytesMax[medium]) throw new GatewayError('FILE_TOO_LARGE');
    if (agreedBytes !== null && agreedBytes !== sizeBytes) {
      throw new GatewayError('INVALID_REQUEST', 'The file does not have the size that was named.');
    }
    await complete(pool, upload.id, { contentType, sizeBytes, sha256: null });
    return contentType;
  } catch (error) {
    if (error instanceof GatewayError) await storage.remove(key);
    throw error;
  }
}
