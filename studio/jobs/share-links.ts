/** Links that show the result of a job to people without a key, until they expire or are revoked. */
import { hash, randomBytes } from 'node:crypto';
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { command } from '../../platform/database.ts';

/** Maximum number of links of a job, without those that ended. */
export const shareLinksMax = 20;

/** Schema of a link without its token; times are in Unix milliseconds. */
export const shareLink = z.object({
  shareId: z.string(),
  jobId: z.string(),
  keyId: z.string().meta({ description: 'API key that created the link.' }),
  createdAtMs: z.number(),
  expiresAtMs: z.number(),
  revokedAtMs: z.number().nullable(),
  openings: z.int().meta({ description: 'Number of times that the link was opened.' }),
  lastOpenedAtMs: z.number().nullable(),
});
export type ShareLink = z.infer<typeof shareLink>;

interface ListOptions {
  organizationId: string;
  /** Only links of this job. */
  jobId?: string | undefined;
  /** Only links that were created before this one. */
  beforeId?: string | undefined;
  limit: number;
}

interface NewShareLink {
  organizationId: string;
  jobId: string;
  keyId: string;
  expiresInSeconds: number;
}

const openedLink = z.object({
  organizationId: z.string(),
  jobId: z.string(),
  expiresAtMs: z.number(),
});
const countRow = z.object({ count: z.int() });

const columns = sql.fragment`id AS "shareId", job_id AS "jobId", key_id AS "keyId", created_at AS "createdAtMs",
  expires_at AS "expiresAtMs", revoked_at AS "revokedAtMs", openings, last_opened_at AS "lastOpenedAtMs"`;
const isOpen = sql.fragment`revoked_at IS NULL AND expires_at > clock_timestamp()`;
const hasToken = (token: string) =>
  sql.fragment`token_hash = decode(${hash('sha256', token)}, 'hex')`;

/** Creates the functions that manage links. `connection` is a pool or an open transaction. */
export function createShareLinks(connection: CommonQueryMethods) {
  return {
    /** Lists links, newest first. */
    list: ({
      organizationId,
      jobId,
      beforeId,
      limit,
    }: ListOptions): Promise<readonly ShareLink[]> =>
      connection.any(sql.type(shareLink)`
        SELECT ${columns} FROM share_link
        WHERE organization_id = ${organizationId} AND (${jobId ?? null}::text IS NULL OR job_id = ${jobId ?? null})
          AND (${beforeId ?? null}::text IS NULL OR id < ${beforeId ?? null})
        ORDER BY id DESC LIMIT ${limit}`),
    /**
     * Creates a link of a job within a transaction. Returns it with its token, which is not stored.
     * @throws GatewayError SHARE_QUOTA_REACHED
     */
    async create({ organizationId, jobId, keyId, expiresInSeconds }: NewShareLink) {
      await connection.query(
        command`SELECT FROM organization WHERE id = ${organizationId} FOR NO KEY UPDATE`,
      );
      const count = await connection.oneFirst(sql.type(countRow)`
        SELECT count(*) FROM share_link WHERE job_id = ${jobId} AND ${isOpen}`);
      if (count >= shareLinksMax) throw new GatewayError('SHARE_QUOTA_REACHED');
      const token = randomBytes(32).toString('base64url');
      const link = await connection.one(sql.type(shareLink)`
        INSERT INTO share_link (id, token_hash, organization_id, job_id, key_id, expires_at)
        VALUES (${newId('shareLink')}, decode(${hash('sha256', token)}, 'hex'), ${organizationId}, ${jobId},
          ${keyId}, clock_timestamp() + ${expiresInSeconds} * interval '1 second') RETURNING ${columns}`);
      return { link, token };
    },
    /** Ends a link; does nothing if it was revoked before. @throws GatewayError NOT_FOUND */
    async revoke(organizationId: string, shareId: string): Promise<ShareLink> {
      const link = await connection.maybeOne(sql.type(shareLink)`
        UPDATE share_link SET revoked_at = coalesce(revoked_at, clock_timestamp())
        WHERE id = ${shareId} AND organization_id = ${organizationId} RETURNING ${columns}`);
      if (!link) throw new GatewayError('NOT_FOUND', 'No such share link.');
      return link;
    },
    /**
     * Finds the job of a token, and counts the opening.
     * @throws GatewayError SHARE_ENDED if the link has expired or was revoked, or its organization is suspended, NOT_FOUND
     */
    async open(token: string): Promise<z.infer<typeof openedLink>> {
      const opened = await connection.maybeOne(sql.type(openedLink)`
        UPDATE share_link SET openings = openings + 1, last_opened_at = clock_timestamp()
        WHERE ${hasToken(token)} AND ${isOpen}
          AND EXISTS (SELECT FROM organization o WHERE o.id = organization_id AND o.status = 'active')
        RETURNING organization_id AS "organizationId", job_id AS "jobId", expires_at AS "expiresAtMs"`);
      if (opened) return opened;
      const isKnown = await connection.exists(
        command`SELECT FROM share_link WHERE ${hasToken(token)}`,
      );
      throw isKnown
        ? new GatewayError('SHARE_ENDED')
        : new GatewayError('NOT_FOUND', 'No such share link.');
    },
  };
}
