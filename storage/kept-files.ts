/**
 * The files that are kept for an organization: what its jobs made (artifacts) and what it brought
 * (uploads). They are listed together; a job's artifacts are deleted together.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { command, type DatabasePool } from '../platform/database.ts';
import { behind, listedTimes, timePage } from '../platform/record-lists.ts';
import type { Storage } from './storage.ts';

/** A file; its time in Unix ms. */
const keptFile = z.object({
  kind: z.enum(['artifact', 'upload']),
  /** Of an upload. */
  fileId: z.string().nullable(),
  /** Of an artifact. */
  jobId: z.string().nullable(),
  storageKey: z.string(),
  /** Null until it has come, when its owner named none. */
  contentType: z.string().nullable(),
  sizeBytes: z.number().nullable(),
  filename: z.string().nullable(),
  /** Whether it has come: an upload may be announced only. */
  complete: z.boolean(),
  createdAtMs: z.number(),
  createdAtMicros: z.number(),
});
export type KeptFile = z.infer<typeof keptFile>;

/** Which files to list; newest first. */
interface FileListing {
  kind: KeptFile['kind'] | undefined;
  /** From `nextCursor` of the page before. */
  cursor: string | undefined;
  limit: number;
}

const keyRow = z.object({ storage_key: z.string() });
/** In one pass; a job makes fewer. */
const removedMax = 200;

const sources = {
  artifact: sql.fragment`SELECT 'artifact' AS kind, NULL AS "fileId", x.job_id AS "jobId", x.storage_key,
    x.content_type, x.size_bytes, NULL AS filename, true AS complete, x.created_at FROM artifact x`,
  upload: sql.fragment`SELECT 'upload' AS kind, x.id AS "fileId", NULL AS "jobId", x.storage_key,
    x.content_type, x.size_bytes, x.filename, x.completed_at IS NOT NULL AS complete, x.created_at
    FROM upload x`,
};

/** Files over a pool and a storage. */
export function createKeptFiles(deps: { pool: DatabasePool; storage: Storage }) {
  const { pool, storage } = deps;

  /** The row says that the object is gone only when it is. */
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
    /** @throws GatewayError INVALID_REQUEST for a cursor that no page gave */
    async list(
      organizationId: string,
      listing: FileListing,
    ): Promise<{ files: readonly KeptFile[]; nextCursor: string | null }> {
      const found = await pool.any(sql.type(keptFile)`${pageOf(organizationId, listing)}`);
      const { page, nextCursor } = timePage(found, listing.limit, (file) => file.storageKey);
      return { files: page, nextCursor };
    },
    /** Deletes what an ended job made; safe to repeat. @throws what the storage throws */
    async deleteMedia(jobId: string): Promise<void> {
      await pool.query(command`
        WITH told AS (
          UPDATE job SET media_deleted_at = clock_timestamp()
          WHERE id = ${jobId} AND status <> 'queued' AND media_deleted_at IS NULL RETURNING id)
        UPDATE artifact SET deleted_at = clock_timestamp() FROM told WHERE job_id = told.id`);
      await remove(sql.fragment`job_id = ${jobId}`);
    },
    /** Removes what was deleted while the storage was away. */
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
