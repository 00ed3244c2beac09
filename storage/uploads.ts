/**
 * Uploads: files that callers send as inputs. Creating a signed URL inserts a row; the row is
 * completed once the object is stored and its first bytes match the declared type. An object that
 * was sent directly to an S3 store is checked when it is first used. An upload counts against the
 * organization's quota as soon as its row exists. A file that no request has used for a long time
 * is deleted.
 */
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { GatewayError } from '../domain/errors.ts';
import { createObjectSource } from './byte-source.ts';
import { acceptUpload, readUpload } from './picture-conversion.ts';
import { digestStream, writeSpoolFile } from './spool.ts';
import {
  completeUpload,
  type Upload,
  type UploadsDeps,
  uploadColumns,
  removeUpload,
  uploadRow,
  createUpload,
  markDeleted,
  findUpload,
  recordConversion,
  type NewUpload,
  type ReceivedFile,
  type UploadOwner,
} from './upload-rows.ts';
import { sql, type FragmentSqlToken, type CommonQueryMethods } from 'slonik';
import { command, type DatabasePool } from '../platform/database.ts';
import { forEachIsolated, type IsolationReport } from '../platform/background.ts';
import { z } from 'zod';
import { newId } from '../domain/ids.ts';
import { contentTypeOf } from './storage.ts';

/**
 * Checks that the object of an upload is an accepted file of the declared size, and completes the upload.
 * Removes an object that fails the check.
 * @returns the content type; null if the file has not been received
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, INVALID_REQUEST, SERVICE_UNAVAILABLE
 */
export async function checkObject(deps: UploadsDeps, upload: Upload): Promise<string | null> {
  if (upload.completed) return upload.content_type;
  const { pool, storage } = deps;
  const { storage_key: key, size_bytes: declaredBytes, converted_from: convertedFrom } = upload;
  const sizeBytes = await storage.size(key);
  if (sizeBytes === null) return null;
  try {
    if (convertedFrom === null && declaredBytes !== null && declaredBytes !== sizeBytes) {
      throw new GatewayError('INVALID_REQUEST', 'The file does not have the declared size.');
    }
    const file = await acceptObject(deps, upload, sizeBytes);
    await completeUpload(pool, upload.id, file);
    return file.contentType;
  } catch (error) {
    if (!isRejection(error)) throw error;
    // Another process may have replaced the object by its conversion during the check.
    const current = await findUpload(pool, upload.id);
    if (current && current.converted_from !== convertedFrom) return checkObject(deps, current);
    await storage.remove(key);
    throw error;
  }
}

/** Returns whether an error says that a file cannot be used, also when it is checked again. */
const isRejection = (error: unknown): error is GatewayError =>
  error instanceof GatewayError && !error.retryable;

/**
 * Checks an object that a caller sent directly to the store. An object that no provider reads is
 * replaced by its conversion, which is recorded first.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, SERVICE_UNAVAILABLE
 */
async function acceptObject(
  { pool, storage, acceptFile }: UploadsDeps,
  upload: Upload,
  sizeBytes: number,
): Promise<ReceivedFile> {
  const { storage_key: key, converted_from: convertedFrom } = upload;
  const { type } = await readUpload(createObjectSource(storage, key), sizeBytes);
  if (!type.isConverted) {
    return { contentType: type.contentType, sizeBytes, sha256: null, convertedFrom };
  }
  const path = await storage.spoolPath();
  try {
    const object = await storage.open(key);
    if (!object) throw new GatewayError('INVALID_REQUEST', 'The file was deleted.');
    await writeSpoolFile(path, object.stream);
    const accepted = await acceptUpload(acceptFile, path);
    const digest = await digestStream(createReadStream(path));
    await recordConversion(pool, upload, accepted.convertedFrom);
    await storage.replace(key, path);
    return {
      contentType: accepted.type.contentType,
      ...digest,
      convertedFrom: accepted.convertedFrom,
    };
  } finally {
    await rm(path, { force: true });
  }
}

/**
 * Claims the upload `id`, runs `receive`, and releases the claim. Returns the result of `receive`.
 * @throws GatewayError UPLOAD_IN_PROGRESS if another request is sending the file
 */
export type WithUploadClaim = <Result>(
  id: string,
  receive: () => Promise<Result>,
) => Promise<Result>;

/**
 * Lifetime of a claim that is not renewed, in milliseconds. After a crash, other requests are
 * rejected for this long.
 */
const claimTtlMs = 60_000;

/**
 * Creates the function that claims uploads. A claim is an expiry time in the upload's row, which is
 * renewed while the file is being received.
 */
function createUploadClaims(pool: DatabasePool): WithUploadClaim {
  const newExpiry = sql.fragment`clock_timestamp() + ${claimTtlMs} * interval '1 millisecond'`;
  return async (id, receive) => {
    const { rowCount } = await pool.query(command`UPDATE upload SET receiving_until = ${newExpiry}
      WHERE id = ${id} AND completed_at IS NULL
        AND (receiving_until IS NULL OR receiving_until < clock_timestamp())`);
    if (rowCount === 0) {
      throw new GatewayError('UPLOAD_IN_PROGRESS', undefined, { retryAfterSeconds: 5 });
    }
    const setClaim = (expiry: FragmentSqlToken): void => {
      pool
        .query(command`UPDATE upload SET receiving_until = ${expiry} WHERE id = ${id}`)
        // Errors are ignored: a claim that could not be renewed or released expires.
        .catch(() => {});
    };
    const renewal = setInterval(setClaim, claimTtlMs / 3, newExpiry);
    try {
      return await receive();
    } finally {
      clearInterval(renewal);
      setClaim(sql.fragment`NULL`);
    }
  };
}

/** Milliseconds from the expiry of an upload URL to the sweep. A transfer may outlast its URL. */
const sweepAfterMs = 3_600_000;
/** Maximum number of expired uploads, and of unused ones, that one sweep handles. */
const sweepCountMax = 100;

/**
 * Sweeps uploads whose URL expired more than an hour ago: completes an upload whose object exists
 * and is valid, and removes the others. Also removes files that no request has used for
 * `retentionMs`. Returns how many uploads were handled and how many failed.
 */
async function sweepUploads(deps: UploadsDeps): Promise<IsolationReport> {
  const { pool, logger, retentionMs } = deps;
  const unusedSince = sql.fragment`clock_timestamp() - ${retentionMs} * interval '1 millisecond'`;
  // A step of a pipeline may wait for weeks until it takes a file. Jobs that began later than a day after a request
  // last named the file do not take it, and their plans are not read.
  const isUnused = sql.fragment`completed_at IS NOT NULL
    AND coalesce(used_at, completed_at) < ${unusedSince}
    AND NOT EXISTS (SELECT FROM reservation r
      WHERE r.organization_id = upload.organization_id AND r.kind = 'studio' AND r.state = 'reserved'
        AND r.created_at < ${unusedSince} + interval '1 day'
        AND strpos((SELECT j.plan::text FROM job j WHERE j.id = r.id AND j.approvals IS NOT NULL), upload.storage_key) > 0)`;
  const isExpired = sql.fragment`completed_at IS NULL
    AND expires_at < clock_timestamp() - ${sweepAfterMs} * interval '1 millisecond'`;
  // Uploads that were not handled for longest come first, so that uploads whose objects the storage
  // does not remove keep no others.
  const take = (condition: FragmentSqlToken) =>
    pool.any(sql.type(uploadRow)`
      UPDATE upload SET swept_at = clock_timestamp() WHERE id IN (
        SELECT id FROM upload WHERE ${condition}
        ORDER BY swept_at NULLS FIRST LIMIT ${sweepCountMax} FOR UPDATE SKIP LOCKED)
      RETURNING ${uploadColumns}`);
  const expiredUploads = await take(isExpired);
  const unusedUploads = await take(isUnused);
  const isolation = { subject: 'upload', logger };
  const checkReport = await forEachIsolated(
    expiredUploads,
    (upload) => checkOrRemove(deps, upload),
    isolation,
  );
  const removalReport = await forEachIsolated(
    unusedUploads,
    ({ id }) => removeUpload(deps, sql.fragment`id = ${id} AND ${isUnused}`),
    isolation,
  );
  return {
    done: checkReport.done + removalReport.done,
    skipped: checkReport.skipped + removalReport.skipped,
  };
}

/** Completes an expired upload whose object exists and is valid; otherwise removes the upload. */
async function checkOrRemove(deps: UploadsDeps, upload: Upload): Promise<void> {
  const { id, deleted } = upload;
  if (deleted) return removeUpload(deps, sql.fragment`id = ${id}`);
  const contentType = await checkObject(deps, upload).catch((error: unknown) => {
    if (isRejection(error)) return null;
    throw error;
  });
  if (contentType === null)
    await removeUpload(deps, sql.fragment`id = ${id} AND completed_at IS NULL`);
}

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
  convertedFrom: string | null;
  filename?: string | null;
  purpose?: string | null;
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
    /** Records the conversion of an upload before its result is stored. */
    recordConversion: (upload: Upload, convertedFrom: string | null): Promise<void> =>
      recordConversion(pool, upload, convertedFrom),
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
      const upload = { ...defaults, ...file, id, storageKey, contentType, bytesMax };
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
    find: (id: string): Promise<Upload | null> => findUpload(pool, id),
    /** Completes or removes expired uploads, and removes unused ones. */
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
