/** Fields that the operators' routes share. */
import { z } from 'zod';
import { GatewayError } from '../../../domain/errors.ts';
import { isId, type IdKind } from '../../../domain/ids.ts';
import { plainText } from '../../identity/key-fields.ts';
import { bodySchema } from '../../middleware/body-schema.ts';

/** Who writes and why: part of every write. */
export const authority = { actor: plainText(100), reason: plainText(500) };

/** A write that says nothing else. */
export const bareWrite = bodySchema(z.strictObject(authority));

/** Page size of the operators' lists. */
export const pageLimit = z.coerce.number().int().min(1).max(200).default(50);

/** A page of at most `limit` of the rows read, and where the next one goes on. */
export function pageOf<Row>(
  rows: Row[],
  limit: number,
  cursor: (last: Row) => string,
): { page: Row[]; hasMore: boolean; nextCursor: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const hasMore = rows.length > limit;
  return { page, hasMore, nextCursor: hasMore && last ? cursor(last) : null };
}

/** An id of this kind in a query. */
export const idField = (kind: IdKind) =>
  z.string().refine((word) => isId(kind, word), `must be the id of a ${kind}`);

/**
 * An id in the path. A malformed one is an unknown one; it never reaches the database.
 * @throws GatewayError NOT_FOUND
 */
export function idParam(
  ctx: { params: Record<string, string> },
  name: string,
  kind: IdKind,
): string {
  const id = ctx.params[name] ?? '';
  if (!isId(kind, id)) throw new GatewayError('NOT_FOUND', `No such ${kind}.`);
  return id;
}
