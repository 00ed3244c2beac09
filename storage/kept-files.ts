/**
 * Stored files of an organization: outputs of its jobs (artifacts) and its uploads. They are listed
 * together; the artifacts of a job are deleted together.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { command, type DatabasePool } from '../platform/database.ts';
import { behind, listedTimes, timePage } from '../platform/record-lists.ts';
import type { Storage } from './storage.ts';

/** A file; its time in Unix ms. */
const keptFile = z.object({
  kind: z.enum(['artifact', 'upload']),
  /** Only of an upload. */
  fileId: z.string().nullable(),
  /** Only of an artifact. */
  jobId: z.string().nullable(),
  storageKey: z.string(),
  /** Null until the file is uploaded, if its owner named no content type. */
  contentType: z.string().nullable(),
  sizeBytes: z.number().nullable(),
  filename: z.string().nullable(),
  /** True if the file is uploaded: an upload may only be announced. */
  complete: z.boolean(),
  createdAtMs: z.number(),
  createdAtMicros: z.number(),
});
export type KeptFile = z.infer<typeof keptFile>;

/** Filter of a list of files; newest first. */
interface FileListing {
  kind: KeptFile['kind'] | undefined;
  /** `nextCursor` of the previous page. */
  cursor: string | undefined;
  limit: number;
}

const keyRow = z.object({ storage_key: z.string() });
/** Files of one pass, more than a job has. */
const removedMax = 200;

const sources = {
  artifact: sql.fragment`SELECT 'artifact' AS kind, NULL AS "fileId", x.job_id AS "jobId", x.storage_key,
    x.content_type, x.size_bytes, NULL AS filename, true AS complete, x.created_at FROM artifact x`,
  upload: sql.fragment`SELECT 'upload' AS kind, x.id AS "fileId", NULL AS "jobId", x.storage_key,
    x.content_type, x.size_bytes, x.filename, x.completed_at IS NOT NULL AS complete, x.created_at
    FROM upload x`,
};

/** Makes the files over a pool and a storage. */
export function createKeptFiles(deps: { pool: DatabasePool; storage: Storage }) {
  const { pool, storage } = deps;

  /** The row is updated after the object is removed. */
  async function remove(which: FragmentSqlToken): Promise<void> {
    const keys = await pool.anyFirst(sql.type(keyRow)`SELECT storage_key FROM artifact
      WHERE deleted_at IS NOT NULL AND removed_at IS NULL AND ${which} LIMIT ${removedMax}`);
    for (const key of keys) {
      await storage.remove(key);
      await pool.query(command`UPDATE artifact SET removed_at = clock_timestamp()
        WHERE storage_key = ${key}`);
    }
  }

  return {
    /**
     * Lists files.
     * @throws GatewayError INVALID_REQUEST for a cursor that no page returned
     */
    async list(
      organizationId: string,
      listing: FileListing,
    ): Promise<{ files: readonly KeptFile[]; nextCursor: string | null }> {
      const found = await pool.any(sql.type(keptFile)`${pageOf(organizationId, listing)}`);
      const { page, nextCursor } = timePage(found, listing.limit, (file) => file.storageKey);
      return { files: page, nextCursor };
    },
    /**
     * Deletes the artifacts of an ended job; repeating it changes nothing.
     * @throws the error of the storage
     */
    async deleteMedia(jobId: string): Promise<void> {
      await pool.query(command`
        WITH told AS (
          UPDATE job SET media_deleted_at = clock_timestamp()
          WHERE id = ${jobId} AND status <> 'queued' AND media_deleted_at IS NULL RETURNING id)
        UPDATE artifact SET deleted_at = clock_timestamp() FROM told WHERE job_id = told.id`);
      await remove(sql.fragment`job_id = ${jobId}`);
    },
    /** Removes objects that could not be removed while the storage was away. */
    sweep: (): Promise<void> => remove(sql.fragment`true`),
  };
}

function pageOf(organizationId: string, { kind, cursor, limit }: FileListing): FragmentSqlToken {
  const conditions = [
    sql.fragment`x.organization_id = ${organizationId}`,
    sql.fragment`x.deleted_at IS NULL`,
    ...behind(cursor, sql.fragment`x.storage_key`),
  ];
  const wanted = kind === undefined ? Object.values(sources) : [sources[kind]];
  const newest = wanted.map(
    (source) => sql.fragment`(${source} WHERE ${sql.join(conditions, sql.fragment` AND `)}
      ORDER BY x.created_at DESC, x.storage_key DESC LIMIT ${limit + 1})`,
  );
  return sql.fragment`SELECT kind, "fileId", "jobId", storage_key AS "storageKey",
      content_type AS "contentType", size_bytes AS "sizeBytes", filename, complete,
      ${listedTimes}
    FROM (${sql.join(newest, sql.fragment` UNION ALL `)}) AS files
    ORDER BY created_at DESC, storage_key DESC LIMIT ${limit + 1}`;
}
