/**
 * API keys of users: list, create, rotate, revoke. Postgres checks quota, expiry and permissions
 * while the row of the user is locked, so that parallel requests cannot exceed them.
 */
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { microFromCredits } from '../../domain/credits.ts';
import { GatewayError, assert } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { JsonObject } from '../../domain/json.ts';
import { keyBudget } from '../../jobs/ledger-verdicts.ts';
import { scopes, type Scope } from './access.ts';
import { showBudget, keyMeta, type keyLimit, type ListedKey } from './key-fields.ts';
import { macOfKey, newApiKey, prefixOfKey } from './key-format.ts';
import { requireAccepted, keyVerdict, type Accepted } from './key-verdicts.ts';

/** Highest number of keys of a user (spec §8). */
const keysPerUserMax = 10;

type ApiKeyMeta = z.infer<typeof keyMeta>;
type KeyLimit = z.infer<typeof keyLimit>;

/** Key that was created; its secret is returned only once. */
export interface NewKey {
  key: string;
  meta: ApiKeyMeta;
  organizationId: string;
}

interface KeyRequest {
  keyId?: string;
  memberId: string;
  /** Key of the request, whose permissions the new key may not exceed; null: an operator. */
  makerKeyId: string | null;
  name: string;
  scopes?: readonly Scope[] | undefined;
  allowedModels?: readonly string[] | null | undefined;
  expiresAtMs?: number | null | undefined;
  limit?: KeyLimit | null | undefined;
  /** Secret that already exists, such as the demo key of a stack whose database was emptied. */
  key?: string | undefined;
}

interface RotationRequest {
  memberId: string;
  makerKeyId: string;
  keyId: string;
  /** Time for which the old key stays valid, in milliseconds. */
  overlapMs: number;
  /** Expiry of the new key; absent: the expiry of the old one. */
  expiresAtMs?: number | null | undefined;
}

interface LimitRequest {
  keyId: string;
  /** User of the key; null: any. */
  memberId: string | null;
  makerKeyId: string | null;
  limit: KeyLimit | null;
}

const answerRow = z.object({ answer: keyVerdict });
const listRow = z.object({ meta: keyMeta, budget: keyBudget.nullable() });
const organizationRow = z.object({ organization: z.string().nullable() });

/** Makes the functions that manage keys, over a pool or an open transaction. */
export function createKeys(connection: CommonQueryMethods, pepper: string) {
  function keyFields(key: string, id = newId('key')): JsonObject {
    return { id, prefix: prefixOfKey(key), mac: macOfKey(key, pepper), quota: keysPerUserMax };
  }

  return {
    /** Lists the keys that are not revoked, newest first. */
    async list(memberId: string): Promise<ListedKey[]> {
      const rows = await connection.any(sql.type(
        listRow,
      )`SELECT api_key_meta(k) AS meta, key_budget(k.id) AS budget FROM api_key k
        WHERE member_id = ${memberId} AND revoked_at IS NULL
          AND (replaced_by IS NULL OR expires_at > now())
        ORDER BY created_at DESC, id DESC`);
      return rows.map(({ meta, budget }) => ({ ...meta, budget: showBudget(budget) }));
    },

    /** Creates a key. @throws GatewayError (key-verdicts.ts) */
    async create({ key = newApiKey(), keyId, ...requested }: KeyRequest): Promise<NewKey> {
      const request = sql.jsonb({
        ...keyFields(key, keyId),
        memberId: requested.memberId,
        makerKeyId: requested.makerKeyId,
        name: requested.name,
        scopes: requested.scopes ? [...requested.scopes] : null,
        allowedModels: requested.allowedModels ? [...requested.allowedModels] : null,
        expiresAtMs: requested.expiresAtMs ?? null,
        limit: microLimit(requested.limit),
      });
      const created = await changeKey(connection, sql.fragment`create_api_key(${request})`);
      return { key, meta: created.meta, organizationId: created.organizationId };
    },

    /** Replaces a key by a new one. @throws GatewayError (key-verdicts.ts) */
    async rotate({
      expiresAtMs = null,
      ...requested
    }: RotationRequest): Promise<NewKey & { oldExpiresAt: number }> {
      const key = newApiKey();
      const request = sql.jsonb({ ...keyFields(key), ...requested, expiresAtMs });
      const created = await changeKey(connection, sql.fragment`rotate_api_key(${request})`);
      const { meta, organizationId, oldExpiresAt } = created;
      assert(oldExpiresAt !== undefined, 'a rotated key has an end');
      return { key, meta, organizationId, oldExpiresAt };
    },

    /**
     * Sets the limit of a key and of the keys that share its budget; null: no limit.
     * @throws GatewayError NOT_FOUND, FORBIDDEN if the maker has a limit, Unauthorized
     */
    setLimit({ limit, ...requested }: LimitRequest): Promise<Accepted> {
      const request = sql.jsonb({ ...requested, limit: microLimit(limit) });
      return changeKey(connection, sql.fragment`set_key_limit(${request})`);
    },

    /**
     * Revokes a key of a user (null: any user), and returns the id of its organization.
     * @throws GatewayError NOT_FOUND
     */
    async revoke(keyId: string, memberId: string | null): Promise<string> {
      const organizationId = await connection.oneFirst(
        sql.type(organizationRow)`SELECT revoke_api_key(${keyId}, ${memberId}) AS organization`,
      );
      if (organizationId === null) throw new GatewayError('NOT_FOUND', 'No such API key.');
      return organizationId;
    },
  };
}

async function changeKey(
  connection: CommonQueryMethods,
  call: FragmentSqlToken,
): Promise<Accepted> {
  return requireAccepted(await connection.oneFirst(sql.type(answerRow)`SELECT ${call} AS answer`));
}

function microLimit(limit: KeyLimit | null | undefined): JsonObject | null {
  return limit ? { micro: microFromCredits(limit.credits), per: limit.per } : null;
}

/** Creates an API key outside of a request; without `scopes`, it has all scopes. */
export async function createKey(
  connection: CommonQueryMethods,
  pepper: string,
  request: Omit<KeyRequest, 'makerKeyId'>,
): Promise<{ keyId: string; key: string }> {
  const keys = createKeys(connection, pepper);
  const { meta, key } = await keys.create({ scopes, ...request, makerKeyId: null });
  return { keyId: meta.keyId, key };
}
