/** Sweeps uploads whose file never arrived or that no request has used for a long time. */
import { sql } from 'slonik';
import { GatewayError } from '../domain/errors.ts';
import { forEachIsolated, type IsolationReport } from '../platform/isolation.ts';
import { checkObject } from './upload-check.ts';
import { columns, removeUpload, uploadRow, type Upload, type UploadsDeps } from './upload-rows.ts';

/** Time from the expiry of an upload's URL to its sweep. A transfer may outlast the URL. */
const sweepAfterMs = 3_600_000;
/** Maximum number of expired uploads, and of unused uploads, that one sweep handles. */
const sweepCountMax = 100;

/**
 * Checks uploads whose URL expired an hour ago: completes those whose object exists and is valid,
 * and removes the others. Also removes files that no request has used for `retentionMs`. Returns
 * how many uploads were handled and how many failed.
 */
export async function sweepUploads(deps: UploadsDeps): Promise<IsolationReport> {
  const { pool, logger, retentionMs } = deps;
  const isUnused = sql.fragment`completed_at IS NOT NULL
    AND coalesce(used_at, completed_at) < clock_timestamp() - ${retentionMs} * interval '1 millisecond'`;
  const expired = await pool.any(sql.type(uploadRow)`SELECT ${columns} FROM upload
    WHERE completed_at IS NULL
      AND expires_at < clock_timestamp() - ${sweepAfterMs} * interval '1 millisecond'
    ORDER BY expires_at LIMIT ${sweepCountMax}`);
  const unused = await pool.any(sql.type(uploadRow)`SELECT ${columns} FROM upload
    WHERE ${isUnused} ORDER BY coalesce(used_at, completed_at) LIMIT ${sweepCountMax}`);
  const isolation = { subject: 'upload', logger };
  const checked = await forEachIsolated(
    expired,
    (upload) => checkOrRemove(deps, upload),
    isolation,
  );
  const removed = await forEachIsolated(
    unused,
    ({ id }) => removeUpload(deps, sql.fragment`id = ${id} AND ${isUnused}`),
    isolation,
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
