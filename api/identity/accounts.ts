/** Organizations, members and keys: making them. */
import { sql } from 'slonik';
import { z } from 'zod';
import { newId } from '../../domain/ids.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { scopes, type Scope } from './access.ts';
import { macOfKey, newApiKey, prefixOfKey } from './key-format.ts';

const none = z.object({});

interface NewOrganization {
  name: string;
  /** Micro-credits per six hours; null = no limit. */
  windowLimitMicro: number | null;
}

/** A new organization with an empty account and an owner. */
export async function createOrganization(
  pool: DatabasePool,
  organization: NewOrganization,
): Promise<{ organizationId: string; memberId: string }> {
  const organizationId = newId('organization');
  const memberId = newId('member');
  await pool.transaction(async (connection) => {
    await connection.query(sql.type(none)`INSERT INTO organization (id, name)
      VALUES (${organizationId}, ${organization.name})`);
    await connection.query(sql.type(none)`INSERT INTO account (organization_id, window_limit)
      VALUES (${organizationId}, ${organization.windowLimitMicro})`);
    await connection.query(sql.type(none)`INSERT INTO member (id, organization_id, name, role)
      VALUES (${memberId}, ${organizationId}, ${'Owner'}, ${'owner'})`);
  });
  return { organizationId, memberId };
}

interface NewKey {
  organizationId: string;
  memberId: string;
  name: string;
  scopes?: readonly Scope[];
  allowedModels?: readonly string[] | null;
  expiresAtMs?: number | null;
  /** A key that already exists, e.g. the demo key of a stack whose database was emptied. */
  key?: string;
}

/** A new API key; the key itself is in this answer only. */
export async function createKey(
  pool: DatabasePool,
  pepper: string,
  wanted: NewKey,
): Promise<{ keyId: string; key: string }> {
  const keyId = newId('key');
  const key = wanted.key ?? newApiKey();
  const expiresAt = wanted.expiresAtMs == null ? null : new Date(wanted.expiresAtMs).toISOString();
  await pool.query(sql.type(none)`INSERT INTO api_key
      (id, organization_id, member_id, name, prefix, mac, scopes, allowed_models, expires_at)
    VALUES (${keyId}, ${wanted.organizationId}, ${wanted.memberId}, ${wanted.name},
      ${prefixOfKey(key)}, decode(${macOfKey(key, pepper)}, 'hex'),
      ${sql.array([...(wanted.scopes ?? scopes)], 'text')},
      ${wanted.allowedModels ? sql.array([...wanted.allowedModels], 'text') : null},
      ${expiresAt}::timestamptz)`);
  return { keyId, key };
}

/** The organization of a key, whatever its state; null when the key is unknown. */
export async function organizationOfKey(
  pool: DatabasePool,
  pepper: string,
  key: string,
): Promise<string | null> {
  return pool.maybeOneFirst(sql.type(z.object({ organization_id: z.string() }))`
    SELECT organization_id FROM api_key WHERE mac = decode(${macOfKey(key, pepper)}, 'hex')`);
}
