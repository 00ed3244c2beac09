/** Operators, who use the deployment's `ADMIN_API_KEY` or a key of their own. */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { fieldError, GatewayError } from '../domain/errors.ts';
import { newId, isSecret } from '../domain/ids.ts';
import type { Config } from '../platform/config.ts';
import {
  isApiKey,
  calculateKeyMac,
  generateApiKey,
  operatorKeyPrefix,
  extractKeyPrefix,
} from './access.ts';
import type { Session } from './sessions.ts';
import type { JsonObject } from '../domain/json.ts';
import { command } from '../platform/database.ts';

const namedOperator = z.object({ operatorId: z.string(), name: z.string() });
/**
 * Operator who sends a request. For the `ADMIN_API_KEY`, `operatorId` is null, and `name` is the
 * name that was entered at the console's sign-in, or null.
 */
export type Operator = z.infer<typeof namedOperator> | { operatorId: null; name: string | null };

/** Operator with a key of their own. Times are in milliseconds since 1970. */
export const operatorRecord = namedOperator.extend({
  keyPrefix: z.string(),
  createdAtMs: z.number(),
  revokedAtMs: z.number().nullable(),
  lastUsedAtMs: z.number().nullable(),
});
export type OperatorRecord = z.infer<typeof operatorRecord>;

/**
 * Creates the functions that find the operator of a key or session. They return null if the key is
 * unknown or revoked. Each request reads the key from the database, so that a revocation takes
 * effect immediately.
 */
export function createOperatorFinder(
  connection: CommonQueryMethods,
  config: Pick<Config, 'ADMIN_API_KEY' | 'KEY_PEPPER' | 'KEY_PEPPER_PREVIOUS'>,
) {
  const { ADMIN_API_KEY: adminKey, KEY_PEPPER: pepper } = config;
  const { KEY_PEPPER_PREVIOUS: previousPepper } = config;
  function findByMacs(mac: string, previousMac: string): Promise<Operator | null> {
    return connection.maybeOne(sql.type(namedOperator)`
      WITH found AS (
        SELECT id, name, mac, last_used_at FROM operator
        WHERE revoked_at IS NULL AND mac IN (decode(${mac}, 'hex'), decode(${previousMac}, 'hex'))),
      used AS (
        UPDATE operator o SET last_used_at = clock_timestamp(), mac = decode(${mac}, 'hex')
        FROM found f WHERE o.id = f.id AND (f.mac <> decode(${mac}, 'hex')
          OR f.last_used_at IS NULL OR f.last_used_at < clock_timestamp() - interval '1 minute'))
      SELECT id AS "operatorId", name FROM found`);
  }
  return {
    async findByKey(key: string | undefined): Promise<Operator | null> {
      if (isSecret(key, adminKey)) return { operatorId: null, name: null };
      if (key === undefined || !isApiKey(key, operatorKeyPrefix)) return null;
      const mac = calculateKeyMac(key, pepper);
      return findByMacs(
        mac,
        previousPepper === undefined ? mac : calculateKeyMac(key, previousPepper),
      );
    },
    async findBySession({ mac, name }: Pick<Session, 'mac' | 'name'>): Promise<Operator | null> {
      return mac === calculateKeyMac(adminKey, pepper)
        ? { operatorId: null, name }
        : findByMacs(mac, mac);
    },
  };
}

const operatorColumns = sql.fragment`id AS "operatorId", name, prefix AS "keyPrefix",
  created_at AS "createdAtMs", revoked_at AS "revokedAtMs", last_used_at AS "lastUsedAtMs"`;

/**
 * Creates an operator with a key, whose secret is returned only once.
 * @throws GatewayError INVALID_REQUEST if an operator with this name has an active key
 */
export async function createOperator(
  connection: CommonQueryMethods,
  pepper: string,
  name: string,
): Promise<OperatorRecord & { key: string }> {
  const key = generateApiKey(operatorKeyPrefix);
  const operator = await connection.maybeOne(sql.type(operatorRecord)`
    INSERT INTO operator (id, name, prefix, mac) VALUES (${newId('operator')}, ${name},
        ${extractKeyPrefix(key)}, decode(${calculateKeyMac(key, pepper)}, 'hex'))
      ON CONFLICT DO NOTHING RETURNING ${operatorColumns}`);
  if (operator) return { ...operator, key };
  const message = 'must not be the name of an operator with an active key; revoke that key first';
  throw fieldError('INVALID_REQUEST', 'name', message);
}

/** Lists operators, newest first, including revoked ones. */
export function listOperators(
  connection: CommonQueryMethods,
  limit: number,
): Promise<readonly OperatorRecord[]> {
  return connection.any(sql.type(operatorRecord)`
    SELECT ${operatorColumns} FROM operator ORDER BY id DESC LIMIT ${limit}`);
}

/** Revokes the key of an operator. @throws GatewayError NOT_FOUND if it has no active key */
export async function revokeOperator(
  connection: CommonQueryMethods,
  operatorId: string,
): Promise<OperatorRecord> {
  const operator = await connection.maybeOne(sql.type(operatorRecord)`
    UPDATE operator SET revoked_at = clock_timestamp()
    WHERE id = ${operatorId} AND revoked_at IS NULL RETURNING ${operatorColumns}`);
  if (!operator) throw new GatewayError('NOT_FOUND', 'No such operator.');
  return operator;
}

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
  actionKey?: string | null | undefined;
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
