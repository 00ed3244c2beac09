/** The record of what operators did: who, what, why. Append-only. */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import type { JsonObject } from '../../domain/json.ts';

const none = z.object({});

/** Something an operator did. */
export interface AdminAction {
  /** `<noun>.<verb>`, e.g. `organization.suspended`. */
  action: string;
  actor: string;
  reason: string;
  organizationId: string | null;
  /** Id of what it was done to. */
  subject: string;
  /** What was asked for; never a secret. */
  details?: JsonObject;
  requestId: string;
  /** Names an action that can be asked for twice but is done once. */
  actionKey?: string;
}

/** An action as it was recorded. */
const recordedAction = z.object({
  id: z.number(),
  action: z.string(),
  actor: z.string(),
  reason: z.string(),
  organizationId: z.string().nullable(),
  subject: z.string(),
  details: z.record(z.string(), z.json()),
  requestId: z.string(),
  createdAtMs: z.number(),
});
/** See `recordedAction`. */
export type RecordedAction = z.infer<typeof recordedAction>;

/** Records an action, best in the transaction of what was done. */
export async function recordAction(
  connection: CommonQueryMethods,
  action: AdminAction,
): Promise<void> {
  await connection.query(sql.type(none)`
    INSERT INTO admin_action (action, actor, reason, organization_id, subject, details, request_id,
        action_key)
      VALUES (${action.action}, ${action.actor}, ${action.reason}, ${action.organizationId},
        ${action.subject}, ${sql.jsonb(action.details ?? {})}, ${action.requestId},
        ${action.actionKey ?? null})
      ON CONFLICT (action_key) DO NOTHING`);
}

interface ActionListing {
  organizationId?: string | undefined;
  /** Only what was done to this. */
  subject?: string | undefined;
  /** Only actions before this id. */
  beforeId?: number | undefined;
  limit: number;
}

/** Recorded actions, newest first. */
export function listActions(
  connection: CommonQueryMethods,
  { organizationId, subject, beforeId, limit }: ActionListing,
): Promise<readonly RecordedAction[]> {
  const of = organizationId ?? null;
  const to = subject ?? null;
  const before = beforeId ?? null;
  return connection.any(sql.type(recordedAction)`
    SELECT id, action, actor, reason, organization_id AS "organizationId", subject, details,
      request_id AS "requestId", created_at AS "createdAtMs"
    FROM admin_action
    WHERE (${of}::text IS NULL OR organization_id = ${of}::text)
      AND (${to}::text IS NULL OR subject = ${to}::text)
      AND (${before}::bigint IS NULL OR id < ${before}::bigint)
    ORDER BY id DESC LIMIT ${limit}`);
}
