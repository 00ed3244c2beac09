/** Append-only record of the actions of operators. */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { JsonObject } from '../../domain/json.ts';
import { command } from '../../platform/database.ts';

/** Operator, reason and request of a write. */
export interface Write {
  body: { actor: string; reason: string };
  requestId: string;
}

interface Action {
  /** Name of the action, `<noun>.<verb>`, such as `organization.suspended`. */
  action: string;
  organizationId?: string | null;
  subject: string;
  /** Arguments of the request, without secrets. */
  details?: JsonObject;
  /** Idempotency id of an action that may be requested twice. */
  actionKey?: string | null;
}

/** Recorded action. */
export const recordedAction = z.object({
  id: z.int(),
  action: z.string(),
  actor: z.string(),
  reason: z.string(),
  organizationId: z.string().nullable(),
  subject: z.string(),
  details: z.record(z.string(), z.json()),
  requestId: z.string(),
  createdAtMs: z.number(),
});
export type RecordedAction = z.infer<typeof recordedAction>;

/** Records an action; `connection` is the transaction of the change if the change has one. */
export async function recordAction(
  connection: CommonQueryMethods,
  { body: { actor, reason }, requestId }: Write,
  { action, organizationId = null, subject, details = {}, actionKey = null }: Action,
): Promise<void> {
  await connection.query(command`
    INSERT INTO admin_action (action, actor, reason, organization_id, subject, details, request_id,
        action_key)
      VALUES (${action}, ${actor}, ${reason}, ${organizationId}, ${subject},
        ${sql.jsonb(details)}, ${requestId}, ${actionKey})
      ON CONFLICT (action_key) DO NOTHING`);
}

interface ActionListing {
  organizationId?: string | undefined;
  subject?: string | undefined;
  beforeId?: number | undefined;
  limit: number;
}

/** Lists recorded actions, newest first. */
export function listActions(
  connection: CommonQueryMethods,
  { organizationId, subject, beforeId, limit }: ActionListing,
): Promise<readonly RecordedAction[]> {
  const organization = organizationId ?? null;
  const subjectId = subject ?? null;
  const before = beforeId ?? null;
  return connection.any(sql.type(recordedAction)`
    SELECT id, action, actor, reason, organization_id AS "organizationId", subject, details,
      request_id AS "requestId", created_at AS "createdAtMs"
    FROM admin_action
    WHERE (${organization}::text IS NULL OR organization_id = ${organization}::text)
      AND (${subjectId}::text IS NULL OR subject = ${subjectId}::text)
      AND (${before}::bigint IS NULL OR id < ${before}::bigint)
    ORDER BY id DESC LIMIT ${limit}`);
}
