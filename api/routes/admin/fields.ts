/** Fields that the operators' routes share. */
import { z } from 'zod';
import { plainText } from '../../identity/key-fields.ts';

/** Who writes and why: part of every write. */
export const authority = { actor: plainText(100), reason: plainText(500) };

/** A write that says nothing else. */
export const bareWrite = z.strictObject(authority);

/** Page size of the operators' lists. */
export const pageLimit = z.coerce.number().int().min(1).max(200).default(50);

/** A cursor that is the last id seen. */
export const idCursor = z.string().max(100);

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

/** A path parameter. */
export function param(ctx: { params: Record<string, string> }, name: string): string {
  return ctx.params[name] ?? '';
}

/** ISO 8601 of Unix ms; null stays null. */
export function isoTime(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString();
}
