/** Organizations and their users: making them. */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { scopes, type Caller, type Scope } from './access.ts';
import { createKeys } from './keys.ts';

const idRow = z.object({ id: z.string() });

const none = z.object({});

interface NewOrganization {
  name: string;
  /** Micro-credits per six hours; null = no limit. */
  windowLimitMicro: number | null;
}

/** A new organization with an empty account and an owner, in one transaction. */
export async function createOrganization(
  pool: Pick<DatabasePool, 'transaction'>,
  organization: NewOrganization,
): Promise<{ organizationId: string; memberId: string }> {
  const organizationId = newId('organization');
  const memberId = await pool.transaction(async (connection) => {
    await connection.query(sql.type(none)`INSERT INTO organization (id, name)
      VALUES (${organizationId}, ${organization.name})`);
    await connection.query(sql.type(none)`INSERT INTO account (organization_id, window_limit)
      VALUES (${organizationId}, ${organization.windowLimitMicro})`);
    return createMember(connection, { organizationId, name: 'Owner', role: 'owner' });
  });
  return { organizationId, memberId };
}

interface NewMember {
  organizationId: string;
  name: string;
  role: Caller['role'];
}

/**
 * A new user of an organization.
 * @returns the user's id
 * @throws GatewayError NOT_FOUND when there is no such organization
 */
export async function createMember(
  connection: CommonQueryMethods,
  member: NewMember,
): Promise<string> {
  const id = await connection.maybeOneFirst(sql.type(idRow)`
    INSERT INTO member (id, organization_id, name, role)
    SELECT ${newId('member')}, o.id, ${member.name}, ${member.role} FROM organization o
      WHERE o.id = ${member.organizationId}
    RETURNING id`);
  if (id === null) throw new GatewayError('NOT_FOUND', 'No such organization.');
  return id;
}

interface OperatorsKey {
  memberId: string;
  name: string;
  scopes?: readonly Scope[];
  allowedModels?: readonly string[] | null;
  expiresAtMs?: number | null;
  /** A key that already exists, e.g. the demo key of a stack whose database was emptied. */
  key?: string;
}

/** A new API key that no other key asked for: all scopes unless narrowed. */
export async function createKey(
  pool: CommonQueryMethods,
  pepper: string,
  wanted: OperatorsKey,
): Promise<{ keyId: string; key: string }> {
  const made = await createKeys(pool, pepper).create({ scopes, ...wanted, makerKeyId: null });
  return { keyId: made.meta.keyId, key: made.key };
}
