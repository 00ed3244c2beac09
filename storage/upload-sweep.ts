/** Sweep of uploads: those that were not received, and those that no request has used for long. */
import { sql } from 'slonik';
import { GatewayError } from '../domain/errors.ts';
import { forEachAlone, type Isolated } from '../platform/isolation.ts';
import { checkObject } from './upload-check.ts';
import { columns, removeUpload, uploadRow, type Upload, type UploadsDeps } from './upload-rows.ts';

/**
 * Time after the expiry of its URL at which an upload is swept, because a transfer may outlast the
 * URL.
 */
const sweepAfterMs = 3_600_000;
/** Maximum number of expired and of unused uploads that one sweep handles. */
const sweepCountMax = 100;

/**
 * Checks uploads whose URL expired an hour ago: completes those whose object exists, and removes
 * the others. Also removes files that no request has used for `keptMs`. Returns the numbers of
 * handled and failed uploads.
 */
export async function sweepUploads(deps: UploadsDeps): Promise<Isolated> {
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
    ({ id }) => removeUpload(deps, sql.fragment`id = ${id} AND ${isUnused}`),
    onEach,
  );
  return { done: checked.done + removed.done, skipped: checked.skipped + removed.skipped };
}

/** Completes an expired upload whose object exists and is valid; otherwise removes the upload. */
async function checkOrRemove(deps: UploadsDeps, upload: Upload): Promise<void> {
  const { id, deleted } = upload;
  if (deleted) return removeUpload(deps, sql.fragment`id = ${id}`);
  const contentType = await checkObject(deps, upload).catch((error: unknown) => {
    if (error instanceof GatewayError) return null;
    throw error;
  });
  if (contentType === null)
    await removeUpload(deps, sql.fragment`id = ${id} AND completed_at IS NULL`);
}
