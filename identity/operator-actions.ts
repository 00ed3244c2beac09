/** Append-only log of operators' actions. */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { JsonObject } from '../domain/json.ts';
import { command } from '../platform/database.ts';

/** Fields of an operator's request that the action log records: operator, reason and request id. */
export interface ActionRequest {
  body: { actor: string; reason: string };
  requestId: string;
}

interface AdminAction {
  /** Name of the action, such as `organization.suspended`. */
  action: string;
  organizationId?: string | null;
  /** Id of the changed object. */
  subject: string;
  /** Arguments of the request, without secrets. */
  details?: JsonObject;
  /**
   * Idempotency key of the action. If a request is repeated with the same key, the action is logged
   * only once.
   */
  actionKey?: string | null;
}

/** Entry of the action log. */
export const actionRecord = z.object({
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
export type ActionRecord = z.infer<typeof actionRecord>;

/** Adds an entry to the action log. `connection` is the transaction of the change, or the pool. */
export async function recordAction(
  connection: CommonQueryMethods,
  { body: { actor, reason }, requestId }: ActionRequest,
  { action, organizationId = null, subject, details = {}, actionKey = null }: AdminAction,
): Promise<void> {
  await connection.query(command`
    INSERT INTO admin_action (action, actor, reason, organization_id, subject, details, request_id,
        action_key)
      VALUES (${action}, ${actor}, ${reason}, ${organizationId}, ${subject},
        ${sql.jsonb(details)}, ${requestId}, ${actionKey})
      ON CONFLICT (action_key) DO NOTHING`);
}

interface ActionFilter {
  organizationId?: string | null | undefined;
  subject?: string | null | undefined;
  beforeId?: number | null | undefined;
  limit: number;
}

/** Lists entries of the action log, newest first. */
export function listActions(
  connection: CommonQueryMethods,
  { organizationId = null, subject = null, beforeId = null, limit }: ActionFilter,
): Promise<readonly ActionRecord[]> {
  return connection.any(sql.type(actionRecord)`
    SELECT id, action, actor, reason, organization_id AS "organizationId", subject, details,
      request_id AS "requestId", created_at AS "createdAtMs"
    FROM admin_action
    WHERE (${organizationId}::text IS NULL OR organization_id = ${organizationId}::text)
      AND (${subject}::text IS NULL OR subject = ${subject}::text)
      AND (${beforeId}::bigint IS NULL OR id < ${beforeId}::bigint)
    ORDER BY id DESC LIMIT ${limit}`);
}
