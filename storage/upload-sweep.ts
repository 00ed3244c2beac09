/** Sweeps uploads whose file never arrived or that no request has used for a long time. */
import { sql, type FragmentSqlToken } from 'slonik';
import { GatewayError } from '../domain/errors.ts';
import { forEachIsolated, type IsolationReport } from '../platform/background.ts';
import { checkObject } from './upload-check.ts';
import {
  uploadColumns,
  removeUpload,
  uploadRow,
  type Upload,
  type UploadsDeps,
} from './upload-rows.ts';

/** Milliseconds from the expiry of an upload URL to the sweep. A transfer may outlast its URL. */
const sweepAfterMs = 3_600_000;
/** Maximum number of expired uploads, and of unused ones, that one sweep handles. */
const sweepCountMax = 100;

/**
 * Sweeps uploads whose URL expired more than an hour ago: completes an upload whose object exists
 * and is valid, and removes the others. Also removes files that no request has used for
 * `retentionMs`. Returns how many uploads were handled and how many failed.
 */
export async function sweepUploads(deps: UploadsDeps): Promise<IsolationReport> {
  const { pool, logger, retentionMs } = deps;
  const isUnused = sql.fragment`completed_at IS NOT NULL
    AND coalesce(used_at, completed_at) < clock_timestamp() - ${retentionMs} * interval '1 millisecond'`;
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
    if (error instanceof GatewayError) return null;
    throw error;
  });
  if (contentType === null)
    await removeUpload(deps, sql.fragment`id = ${id} AND completed_at IS NULL`);
}
