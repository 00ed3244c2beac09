/**
 * Operators: who holds the deployment's admin key, or a key of their own that can be revoked by itself; and the
 * append-only record of what they did.
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { JsonObject } from '../../domain/json.ts';
import { isSecret } from '../../platform/secret-comparison.ts';
import { isOperatorKey, macOfKey, newOperatorKey, prefixOfKey } from './key-format.ts';
import type { Session } from './sessions.ts';
import { command } from '../../platform/database.ts';

const namedOperator = z.object({ operatorId: z.string(), name: z.string() });
/**
 * Who operates. Without an id: the holder of `ADMIN_API_KEY`, who says in each write, or when a session
 * begins, who they are.
 */
export type Operator = z.infer<typeof namedOperator> | { operatorId: null; name: string | null };

/** An operator with a key; times are Unix ms. */
export const operatorRecord = namedOperator.extend({
  keyPrefix: z.string(),
  createdAtMs: z.number(),
  revokedAtMs: z.number().nullable(),
  lastUsedAtMs: z.number().nullable(),
});
export type OperatorRecord = z.infer<typeof operatorRecord>;

interface OperatorSecrets {
  adminKey: string;
  pepper: string;
  /** Also accepted: a key that is known under it is known under `pepper` from then on. */
  previousPepper: string | undefined;
}

/** Finds operators; null for a key that is unknown or revoked. Each request asks, so that a revoked key ends at once. */
export function createFindOperator(
  connection: CommonQueryMethods,
  { adminKey, pepper, previousPepper }: OperatorSecrets,
) {
  function byMacs(mac: string, formerMac: string): Promise<Operator | null> {
    return connection.maybeOne(sql.type(namedOperator)`
      WITH found AS (
        SELECT id, name, mac, last_used_at FROM operator
        WHERE revoked_at IS NULL AND mac IN (decode(${mac}, 'hex'), decode(${formerMac}, 'hex'))),
      used AS (
        UPDATE operator o SET last_used_at = clock_timestamp(), mac = decode(${mac}, 'hex')
        FROM found f WHERE o.id = f.id AND (f.mac <> decode(${mac}, 'hex')
          OR f.last_used_at IS NULL OR f.last_used_at < clock_timestamp() - interval '1 minute'))
      SELECT id AS "operatorId", name FROM found`);
  }
  return {
    async byKey(key: string | undefined): Promise<Operator | null> {
      if (isSecret(key, adminKey)) return { operatorId: null, name: null };
      if (key === undefined || !isOperatorKey(key)) return null;
      const mac = macOfKey(key, pepper);
      return byMacs(mac, previousPepper === undefined ? mac : macOfKey(key, previousPepper));
    },
    async bySession({ mac, name }: Pick<Session, 'mac' | 'name'>): Promise<Operator | null> {
      return mac === macOfKey(adminKey, pepper) ? { operatorId: null, name } : byMacs(mac, mac);
    },
  };
}

/**
 * Makes an operator; the only time the key itself is known.
 * @throws GatewayError INVALID_REQUEST when an operator of this name has a key
 */
export async function createOperator(
  connection: CommonQueryMethods,
  pepper: string,
  name: string,
): Promise<{ operatorId: string; key: string }> {
  const operatorId = newId('operator');
  const key = newOperatorKey();
  const { rowCount } = await connection.query(command`
    INSERT INTO operator (id, name, prefix, mac)
      VALUES (${operatorId}, ${name}, ${prefixOfKey(key)}, decode(${macOfKey(key, pepper)}, 'hex'))
      ON CONFLICT DO NOTHING`);
  if (rowCount === 0) {
    const message = 'must not be the name of an operator with an active key: revoke that key first';
    throw fieldError('INVALID_REQUEST', 'name', message);
  }
  return { operatorId, key };
}

const columns = sql.fragment`id AS "operatorId", name, prefix AS "keyPrefix",
  created_at AS "createdAtMs", revoked_at AS "revokedAtMs", last_used_at AS "lastUsedAtMs"`;

/** Operators, newest first, the revoked ones too. */
export function listOperators(
  connection: CommonQueryMethods,
  limit: number,
): Promise<readonly OperatorRecord[]> {
  return connection.any(sql.type(operatorRecord)`
    SELECT ${columns} FROM operator ORDER BY id DESC LIMIT ${limit}`);
}

/** @throws GatewayError NOT_FOUND */
export async function readOperator(
  connection: CommonQueryMethods,
  operatorId: string,
): Promise<OperatorRecord> {
  const found = await connection.maybeOne(sql.type(operatorRecord)`
    SELECT ${columns} FROM operator WHERE id = ${operatorId}`);
  if (!found) throw unknownOperator();
  return found;
}

/** Ends the key of an operator at once. @throws GatewayError NOT_FOUND when there is none, or it has ended */
export async function revokeOperator(
  connection: CommonQueryMethods,
  operatorId: string,
): Promise<void> {
  const { rowCount } = await connection.query(command`
    UPDATE operator SET revoked_at = clock_timestamp()
    WHERE id = ${operatorId} AND revoked_at IS NULL`);
  if (rowCount === 0) throw unknownOperator();
}

function unknownOperator(): GatewayError {
  return new GatewayError('NOT_FOUND', 'No such operator.');
}

/** A write of an operator: who, why, and which request. */
export interface Write {
  body: { actor: string; reason: string };
  requestId: string;
}

interface Action {
  /** `<noun>.<verb>`, e.g. `organization.suspended`. */
  action: string;
  /** Absent: none. */
  organizationId?: string | null;
  /** Id of what it was done to. */
  subject: string;
  /** What was asked for; never a secret. */
  details?: JsonObject;
  /** Names an action that can be asked for twice but is done once. */
  actionKey?: string | null;
}

/** An action as it was recorded. */
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

/** Records an action, best in the transaction of what was done. */
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
