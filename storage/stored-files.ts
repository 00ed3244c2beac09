/**
 * Stored files of an organization: the outputs of its jobs (artifacts) and the files that it
 * uploaded (uploads). Lists both kinds together, and deletes the artifacts of a job.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { contentCredentials, extractTitle } from '../domain/job-record.ts';
import { command, isDatabaseUnavailable, type DatabasePool } from '../platform/database.ts';
import { forEachIsolated, type IsolationReport } from '../platform/background.ts';
import type { Logger } from '../platform/logger.ts';
import { afterCursor, listedTimes, buildPage } from '../platform/record-lists.ts';
import type { NamedFile } from './file-names.ts';
import { listsArtifact, seesUpload, type FileReader } from './file-readers.ts';
import { contentTypeOf, type Storage } from './storage.ts';

/** Stored file. Its time of creation is given in Unix milliseconds and in microseconds. */
const storedFile = z.object({
  kind: z.enum(['artifact', 'upload']),
  /** Id of an upload; null for an artifact. */
  fileId: z.string().nullable(),
  /** Job that produced an artifact; null for an upload. */
  jobId: z.string().nullable(),
  storageKey: z.string(),
  /** Content type. Null until the file is received, if the caller declared no type. */
  contentType: z.string().nullable(),
  sizeBytes: z.number().nullable(),
  filename: z.string().nullable(),
  /** Format that an upload had before it was converted; null if it was not converted. */
  convertedFrom: z.string().nullable(),
  /** Request of the job that produced an artifact; null for an upload and if the job is archived. */
  request: z.record(z.string(), z.json()).nullable(),
  /** Mark of an artifact; null for an upload, in which no marks are searched. */
  contentCredentials: contentCredentials.nullable(),
  /** Whether the file is stored; false for an upload whose file has not been received. */
  complete: z.boolean(),
  createdAtMs: z.number(),
  createdAtMicros: z.number(),
});
export type StoredFile = z.infer<typeof storedFile>;

const fileDescription = storedFile.pick({ contentType: true, filename: true, request: true });

/** Filter of a file list, and the page to return. The newest file comes first. */
interface FileListing {
  /** Undefined to list both kinds. */
  kind: StoredFile['kind'] | undefined;
  /** `nextCursor` of the previous page; undefined for the first page. */
  cursor: string | undefined;
  limit: number;
}

interface StoredFilesDeps {
  pool: DatabasePool;
  storage: Storage;
  logger: Logger;
}

/** Row of an artifact, whose id is the storage key of its object. */
const artifactRow = z.object({ id: z.string() });
/** Maximum number of objects removed by one call of `removeObjects`; no job has this many. */
const removeCountMax = 200;

const queriesByKind = {
  artifact: (
    reader: FileReader,
  ) => sql.fragment`SELECT 'artifact' AS kind, NULL AS "fileId", x.job_id AS "jobId", x.storage_key,
    x.content_type, x.size_bytes, NULL AS filename, NULL AS "convertedFrom",
    (SELECT j.request FROM job j WHERE j.id = x.job_id) AS request, x.content_credentials,
    true AS complete, x.created_at FROM artifact x WHERE ${listsArtifact(reader)}`,
  upload: (
    reader: FileReader,
  ) => sql.fragment`SELECT 'upload' AS kind, x.id AS "fileId", NULL AS "jobId", x.storage_key,
    x.content_type, x.size_bytes, x.filename, x.converted_from AS "convertedFrom",
    NULL AS request, NULL AS content_credentials,
    x.completed_at IS NOT NULL AS complete, x.created_at
    FROM upload x WHERE ${seesUpload(reader)}`,
};

/** Creates the functions that list and delete stored files. */
export function createStoredFiles({ pool, storage, logger }: StoredFilesDeps) {
  /**
   * Removes the objects of deleted artifacts. Marks a row as removed only once its object is gone.
   * Returns how many were removed and how many failed.
   */
  async function removeObjects(condition: FragmentSqlToken): Promise<IsolationReport> {
    // Objects that were not tried for longest come first, so that objects that the storage does not
    // remove keep no others.
    const artifacts = await pool.any(sql.type(artifactRow)`
      UPDATE artifact SET removal_tried_at = clock_timestamp() WHERE storage_key IN (
        SELECT storage_key FROM artifact
        WHERE deleted_at IS NOT NULL AND removed_at IS NULL AND ${condition}
        ORDER BY removal_tried_at NULLS FIRST LIMIT ${removeCountMax} FOR UPDATE SKIP LOCKED)
      RETURNING storage_key AS id`);
    const removeObject = async ({ id: key }: { id: string }): Promise<void> => {
      await storage.remove(key);
      await pool.query(command`UPDATE artifact SET removed_at = clock_timestamp()
        WHERE storage_key = ${key}`);
    };
    return forEachIsolated(artifacts, removeObject, { subject: 'artifact', logger });
  }

  return {
    /** Returns the content type of a stored file, and a text that describes it. */
    async describe(storageKey: string): Promise<NamedFile> {
      const description = pool.maybeOne(sql.type(fileDescription)`
        SELECT content_type AS "contentType", filename, NULL AS request
        FROM upload WHERE storage_key = ${storageKey}
        UNION ALL
        SELECT x.content_type, NULL, j.request FROM artifact x LEFT JOIN job j ON j.id = x.job_id
        WHERE x.storage_key = ${storageKey} LIMIT 1`);
      // While Postgres is away, a file is served with the name and type of its storage key.
      const found = await description.catch((error: unknown) => {
        if (isDatabaseUnavailable(error)) return null;
        throw error;
      });
      const contentType = found?.contentType ?? contentTypeOf(storageKey);
      return { storageKey, contentType, text: found && extractFileTitle(found) };
    },
    /**
     * Lists the files that a caller may see, newest first.
     * @throws GatewayError INVALID_REQUEST if the cursor is not from a page of this list
     */
    async list(
      reader: FileReader,
      listing: FileListing,
    ): Promise<{ files: readonly StoredFile[]; nextCursor: string | null }> {
      const rows = await pool.any(sql.type(storedFile)`${buildPageQuery(reader, listing)}`);
      const { page, nextCursor } = buildPage(rows, listing.limit, (file) => file.storageKey);
      return { files: page, nextCursor };
    },
    /**
     * Deletes the artifacts of an ended job. Safe to repeat.
     * @throws Error if the storage fails
     */
    async deleteMedia(jobId: string): Promise<void> {
      await pool.query(command`
        WITH deleted AS (
          UPDATE job SET media_deleted_at = clock_timestamp()
          WHERE id = ${jobId} AND media_deleted_at IS NULL RETURNING id)
        UPDATE artifact SET deleted_at = clock_timestamp() FROM deleted WHERE job_id = deleted.id`);
      const { skipped } = await removeObjects(sql.fragment`job_id = ${jobId}`);
      if (skipped > 0) throw new Error('the storage did not remove all files of the job');
    },
    /** Removes the objects of artifacts that were deleted while the storage was unavailable. */
    sweep: (): Promise<IsolationReport> => removeObjects(sql.fragment`true`),
  };
}

/** Returns a text that describes a file: the title of an artifact's job, or the name of an upload. */
export const extractFileTitle = ({ filename, request }: z.infer<typeof fileDescription>) =>
  request ? extractTitle(request) : (filename?.replace(/\.[^.]*$/, '') ?? null);

function buildPageQuery(
  reader: FileReader,
  { kind, cursor, limit }: FileListing,
): FragmentSqlToken {
  const conditions = [
    sql.fragment`x.organization_id = ${reader.organizationId}`,
    sql.fragment`x.deleted_at IS NULL`,
    ...afterCursor(cursor, sql.fragment`x.storage_key`),
  ];
  const selectedQueries = kind === undefined ? Object.values(queriesByKind) : [queriesByKind[kind]];
  const newestOfEachKind = selectedQueries.map(
    (select) => sql.fragment`(${select(reader)} AND ${sql.join(conditions, sql.fragment` AND `)}
      ORDER BY x.created_at DESC, x.storage_key DESC LIMIT ${limit + 1})`,
  );
  return sql.fragment`SELECT kind, "fileId", "jobId", storage_key AS "storageKey",
      content_type AS "contentType", size_bytes AS "sizeBytes", filename, "convertedFrom",
      request, content_credentials AS "contentCredentials", complete,
      ${listedTimes}
    FROM (${sql.join(newestOfEachKind, sql.fragment` UNION ALL `)}) AS files
    ORDER BY created_at DESC, storage_key DESC LIMIT ${limit + 1}`;
}
