/**
 * Uploads: files that callers send as inputs. A row is created with the signed URL. The row is completed when the
 * object is in the storage and its first bytes have the declared type. An object that was sent directly to an S3
 * store is checked when it is first used. The bytes of an upload count against the organization's quota as soon as
 * the row exists. A file that no request has named for a long time is removed.
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

/** Row of an upload. */
const uploadRow = z.object({
  id: z.string(),
  organization_id: z.string(),
  storage_key: z.string(),
  content_type: z.string().nullable(),
  size_bytes: z.number().nullable(),
  completed: z.boolean(),
  deleted: z.boolean(),
});

/** Recorded upload. */
export type Upload = z.infer<typeof uploadRow>;

/** Organization that owns a file, and the API key that uploaded it. */
export interface UploadOwner {
  organizationId: string;
  keyId: string;
}

interface NewUpload extends UploadOwner {
  id: string;
  storageKey: string;
  /** Null if the caller declared neither a type nor a file name with a known extension. */
  contentType: string | null;
  /** Declared size; null if the caller declared none. */
  sizeBytes: number | null;
  /** Maximum size in bytes; it counts against the quota until the file is received. */
  bytesMax: number;
  filename: string | null;
  purpose: string | null;
  /** Expiry of the signed URL in Unix milliseconds. */
  expiresAtMs: number;
}

/** Properties of a received file. */
export interface ReceivedFile {
  contentType: string;
  sizeBytes: number;
  /** Null for an object that was sent directly to the store. */
  sha256: string | null;
}

/** Spooled file of a request's body, to be stored as an upload. */
export interface BroughtFile extends UploadOwner {
  /** File extension, from which the content type follows. */
  extension: string;
  /** Path of the spool file, which is moved into the storage. */
  path: string;
  sizeBytes: number;
  sha256: string;
}

/** Size in bytes of the form of a request that is about to be received. */
export interface FormSize {
  organizationId: string;
  bytes: number;
  /** Idempotency-Key of the request; null if it has none. */
  idempotencyKey: string | null;
}

/** Storage quota of an organization and its use, in bytes; the sizes that open upload URLs allow count as used. */
export interface UploadQuota {
  limit: number;
  used: number;
}

interface UploadsDeps {
  pool: DatabasePool;
  storage: Storage;
  logger: Logger;
  /** Storage quota of an organization in bytes. */
  bytesMax: number;
  /** Time after its last use at which a file is removed, in milliseconds. */
  keptMs: number;
}

/** Time after the expiry of its URL at which an upload is swept, because a transfer may outlast the URL. */
const sweepAfterMs = 3_600_000;
/** Maximum number of expired and of unused uploads that one sweep handles. */
const sweepCountMax = 100;

const columns = sql.fragment`id, organization_id, storage_key, content_type, size_bytes,
  completed_at IS NOT NULL AS completed, deleted_at IS NOT NULL AS deleted`;

/** Makes the functions that manage the uploads of all organizations. */
export function createUploads(deps: UploadsDeps) {
  const { pool } = deps;
  return {
    /** Creates the row of an upload. @throws GatewayError STORAGE_QUOTA_EXCEEDED */
    create: (upload: NewUpload): Promise<void> => create(deps, upload),
    /** Records that the object is in the storage. */
    complete: (id: string, file: ReceivedFile): Promise<void> => complete(pool, id, file),
    /**
     * Stores a file of a request's body as a completed upload.
     * @returns the storage key, for the plan or for `discard`
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
    /** Removes the file of a rejected request; does nothing if the file is already removed. */
    discard: (storageKey: string) => remove(deps, sql.fragment`storage_key = ${storageKey}`),
    /**
     * Deletes an upload for its owner; its bytes no longer count against the quota. Safe to repeat.
     * @returns the time of the deletion (Unix ms); null if the organization has no upload with this id
     */
    delete: (id: string, organizationId: string) => markDeleted(deps, { id, organizationId }),
    whileReceiving: createReceipts(pool),
    /** Returns the quota of an organization and its use. */
    async quotaOf(organizationId: string): Promise<UploadQuota> {
      const used = await pool.oneFirst(sql.type(uploadBytesRow)`
        SELECT upload_bytes FROM organization WHERE id = ${organizationId}`);
      return { limit: deps.bytesMax, used };
    },
    /**
     * Checks that the object is in the storage and has the declared type and size; an object that does not is
     * removed. A successful check sets the time of the last use.
     * @returns the content type; null if the file is not received yet
     * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, INVALID_REQUEST
     */
    async confirm(upload: Upload): Promise<string | null> {
      const contentType = await checkObject(deps, upload);
      if (contentType === null) return null;
      const { rowCount } = await pool.query(command`
        UPDATE upload SET used_at = clock_timestamp() WHERE id = ${upload.id}`);
      return rowCount === 0 ? null : contentType;
    },
    /**
     * Checks that the quota has room for the files of a request. A request whose Idempotency-Key is claimed already may be
     * a replay, which stores nothing.
     * @throws GatewayError STORAGE_QUOTA_EXCEEDED
     */
    requireRoom: (form: FormSize): Promise<void> => requireRoom(deps, form),
    /** Finds an upload by id; null if there is none. */
    find: (id: string): Promise<Upload | null> =>
      pool.maybeOne(sql.type(uploadRow)`SELECT ${columns} FROM upload
        WHERE id = ${id} AND deleted_at IS NULL`),
    /**
     * Checks uploads whose URL expired an hour ago: completes those whose object exists, and removes the others. Also
     * removes files that no request has used for `keptMs`. Returns the numbers of handled and failed uploads.
     */
    sweep: (): Promise<Isolated> => sweep(deps),
  };
}
export type Uploads = ReturnType<typeof createUploads>;

async function requireRoom(
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

/**
 * Creates the row of an upload and adds its maximum size to the used bytes, in one statement. The statement locks the
 * organization's row, so two simultaneous uploads cannot exceed the quota together.
 * @throws GatewayError STORAGE_QUOTA_EXCEEDED
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
 * Deletes the row of an upload and removes its object in one transaction. The row is locked until the object is
 * removed, so a concurrent `confirm` waits for the lock and finds neither.
 */
function remove({ pool, storage }: UploadsDeps, condition: FragmentSqlToken): Promise<void> {
  return pool.transaction(async (connection) => {
    const key = await connection.maybeOneFirst(sql.type(storageKeyRow)`
      DELETE FROM upload WHERE ${condition} RETURNING storage_key`);
    if (key !== null) await storage.remove(key);
  });
}

/**
 * Marks an upload as deleted and removes its object. The row remains until its signed URL has expired, so that the
 * sweep can remove an object that is sent after the deletion.
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
  const isUnused = sql.fragment`completed_at IS NOT NULL
    AND coalesce(used_at, completed_at) < clock_timestamp() - ${keptMs} * interval '1 millisecond'`;
  const expired = await pool.any(sql.type(uploadRow)`SELECT ${columns} FROM upload
    WHERE completed_at IS NULL
      AND expires_at < clock_timestamp() - ${sweepAfterMs} * interval '1 millisecond'
    ORDER BY expires_at LIMIT ${sweepCountMax}`);
  const unused = await pool.any(sql.type(uploadRow)`SELECT ${columns} FROM upload
    WHERE ${isUnused} ORDER BY coalesce(used_at, completed_at) LIMIT ${sweepCountMax}`);
  const onEach = { subject: 'upload', logger };
  const checked = await forEachAlone(expired, (upload) => checkOrRemove(deps, upload), onEach);
  const removed = await forEachAlone(
    unused,
    ({ id }) => remove(deps, sql.fragment`id = ${id} AND ${isUnused}`),
    onEach,
  );
  return { done: checked.done + removed.done, skipped: checked.skipped + removed.skipped };
}

/** Completes an expired upload whose object exists and is valid; otherwise removes the upload. */
async function checkOrRemove(deps: UploadsDeps, upload: Upload): Promise<void> {
  const { id, deleted } = upload;
  if (deleted) return remove(deps, sql.fragment`id = ${id}`);
  const contentType = await checkObject(deps, upload).catch((error: unknown) => {
    if (error instanceof GatewayError) return null;
    throw error;
  });
  if (contentType === null) await remove(deps, sql.fragment`id = ${id} AND completed_at IS NULL`);
}

/** Checks the object of an upload and returns its content type; null if it is not received yet. See `confirm`. */
async function checkObject({ pool, storage }: UploadsDeps, upload: Upload): Promise<string | null> {
  if (upload.completed) return upload.content_type;
  const { storage_key: key, size_bytes: declaredBytes } = upload;
  const sizeBytes = await storage.size(key);
  if (sizeBytes === null) return null;
  try {
    const object = await storage.open(key, { first: 0, last: headBytes - 1 });
    const head = object ? await buffer(object.stream) : Buffer.alloc(0);
    const { medium, contentType } = await inspectHead(head, upload.content_type);
    if (sizeBytes > fileBytesMax[medium]) throw new GatewayError('FILE_TOO_LARGE');
    if (declaredBytes !== null && declaredBytes !== sizeBytes) {
      throw new GatewayError('INVALID_REQUEST', 'The file does not have the declared size.');
    }
    await complete(pool, upload.id, { contentType, sizeBytes, sha256: null });
    return contentType;
  } catch (error) {
    if (error instanceof GatewayError) await storage.remove(key);
    throw error;
  }
}
