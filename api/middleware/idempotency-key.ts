/** The Idempotency-Key header: one key, one request (design §4). */
import { createHash } from 'node:crypto';
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import type { RequestContext } from '../context.ts';
import { parseWith } from './body.ts';

/** Printable ASCII, 1–255 characters (design §4). */
const text = z.string().regex(/^[\x21-\x7e]{1,255}$/, 'must be 1–255 printable characters');
const header = z.object({ 'Idempotency-Key': text });

/** The header as operations with it are described. */
export const idempotencyHeader = {
  'Idempotency-Key': text
    .optional()
    .meta({ description: 'The same key and body are one request; another body is refused.' }),
};

/**
 * The key of a request; null when it names none.
 * @throws GatewayError INVALID_REQUEST
 */
export function idempotencyKeyOf(ctx: Pick<RequestContext, 'headers'>): string | null {
  const given = ctx.headers['idempotency-key'];
  if (given === undefined) return null;
  const key = parseWith(header, { 'Idempotency-Key': given });
  return key['Idempotency-Key'];
}

/** Hex SHA-256 of a parsed request: two spellings of one request are the same request. */
export function fingerprintOf(path: string, body: unknown): string {
  return createHash('sha256')
    .update(`${path}\n${JSON.stringify(body)}`)
    .digest('hex');
}

/** A deed that is done in one transaction, under a key. */
interface KeyedDeed {
  organizationId: string;
  idempotencyKey: string;
  path: string;
  body: unknown;
  /** Id of what the deed makes. */
  subject: string;
}

/**
 * Claims a key in the transaction of its deed: who comes second waits for the first, and finds it done
 * or undone.
 * @returns what an earlier request made under the key; null: go on
 * @throws GatewayError IDEMPOTENCY_KEY_REUSED
 */
export async function claimDeed(
  connection: CommonQueryMethods,
  deed: KeyedDeed,
): Promise<string | null> {
  const fingerprint = fingerprintOf(deed.path, deed.body);
  const { organizationId, idempotencyKey, subject } = deed;
  const { rowCount } = await connection.query(sql.type(z.object({}))`
    INSERT INTO idempotency_claim (organization_id, idempotency_key, fingerprint, job_id)
      VALUES (${organizationId}, ${idempotencyKey}, ${fingerprint}, ${subject})
      ON CONFLICT DO NOTHING`);
  if (rowCount > 0) return null;
  const earlier = await connection.one(
    sql.type(z.object({ fingerprint: z.string(), job_id: z.string() }))`
      SELECT fingerprint, job_id FROM idempotency_claim
      WHERE organization_id = ${organizationId} AND idempotency_key = ${idempotencyKey}`,
  );
  if (earlier.fingerprint !== fingerprint) throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
  return earlier.job_id;
}
