/**
 * Lists, creates, rotates and revokes the API keys of users. Postgres checks quota, expiry and
 * permissions while the user's row is locked, so that parallel requests cannot exceed them.
 */
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { microFromCredits } from '../domain/credits.ts';
import { GatewayError, assert } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import type { JsonObject } from '../domain/json.ts';
import { keyBudget } from '../domain/ledger-results.ts';
import { keysPerUserMax, scopes, type Scope } from './access.ts';
import { formatBudget, keyMeta, type keyLimit, type ListedKey } from './key-fields.ts';
import { calculateKeyMac, generateApiKey, extractKeyPrefix } from './key-format.ts';
import { requireChanged, keyResult, type ChangedKey } from './key-results.ts';

type ApiKeyMeta = z.infer<typeof keyMeta>;
type KeyLimit = z.infer<typeof keyLimit>;

/** New API key. Its secret is returned only once. */
export interface NewKey {
  key: string;
  meta: ApiKeyMeta;
  organizationId: string;
}

interface KeyRequest {
  keyId?: string;
  memberId: string;
  /** Id of the request's API key, whose permissions the new key must not exceed. Null: operator. */
  actingKeyId: string | null;
  name: string;
  scopes?: readonly Scope[] | undefined;
  allowedModels?: readonly string[] | null | undefined;
  expiresAtMs?: number | null | undefined;
  limit?: KeyLimit | null | undefined;
  /**
   * Secret of the new key. Set only to create a key with a known secret, such as the demo key.
   * Defaults to a random secret.
   */
  key?: string | undefined;
}

interface RotationRequest {
  memberId: string;
  actingKeyId: string;
  keyId: string;
  /** Time that the old key stays valid, in milliseconds. */
  overlapMs: number;
  /** Expiry of the new key. Defaults to the expiry of the old one. */
  expiresAtMs?: number | null | undefined;
}

interface LimitRequest {
  keyId: string;
  /** Id of the key's user. Null if the key may belong to any user. */
  memberId: string | null;
  /** Id of the API key that authenticates the request. Null for an operator. */
  actingKeyId: string | null;
  limit: KeyLimit | null;
}

const answerRow = z.object({ answer: keyResult });
const listRow = z.object({ meta: keyMeta, budget: keyBudget.nullable() });
const organizationRow = z.object({ organization: z.string().nullable() });

function createSecretFields(key: string, pepper: string, id = newId('key')): JsonObject {
  const [prefix, mac] = [extractKeyPrefix(key), calculateKeyMac(key, pepper)];
  return { id, prefix, mac, quota: keysPerUserMax };
}

/** Creates the functions that manage API keys. `connection` is a pool or an open transaction. */
export function createKeys(connection: CommonQueryMethods, pepper: string) {
  return {
    /** Lists the keys that are not revoked, newest first. */
    async list(memberId: string): Promise<ListedKey[]> {
      const rows = await connection.any(sql.type(
        listRow,
      )`SELECT api_key_meta(k) AS meta, key_budget(k.id) AS budget FROM api_key k
        WHERE member_id = ${memberId} AND revoked_at IS NULL
          AND (replaced_by IS NULL OR expires_at > now())
        ORDER BY created_at DESC, id DESC`);
      return rows.map(({ meta, budget }) => ({ ...meta, budget: formatBudget(budget) }));
    },

    /** Creates a key. @throws GatewayError the errors in key-results.ts */
    async create({ key = generateApiKey(), keyId, ...requested }: KeyRequest): Promise<NewKey> {
      const request = sql.jsonb({
        ...createSecretFields(key, pepper, keyId),
        memberId: requested.memberId,
        actingKeyId: requested.actingKeyId,
        name: requested.name,
        scopes: requested.scopes ? [...requested.scopes] : null,
        allowedModels: requested.allowedModels ? [...requested.allowedModels] : null,
        expiresAtMs: requested.expiresAtMs ?? null,
        limit: toMicroLimit(requested.limit),
      });
      const createdKey = await changeKey(connection, sql.fragment`create_api_key(${request})`);
      return { key, meta: createdKey.meta, organizationId: createdKey.organizationId };
    },

    /** Replaces a key by a new one. @throws GatewayError the errors in key-results.ts */
    async rotate({
      expiresAtMs = null,
      ...requested
    }: RotationRequest): Promise<NewKey & { oldExpiresAt: number }> {
      const key = generateApiKey();
      const request = sql.jsonb({ ...createSecretFields(key, pepper), ...requested, expiresAtMs });
      const createdKey = await changeKey(connection, sql.fragment`rotate_api_key(${request})`);
      const { meta, organizationId, oldExpiresAt } = createdKey;
      assert(oldExpiresAt !== undefined, 'the rotation returned no expiry of the old key');
      return { key, meta, organizationId, oldExpiresAt };
    },

    /**
     * Sets the spending limit of a key and of the keys that share its budget. Null removes it.
     * @throws GatewayError NOT_FOUND, FORBIDDEN if the acting key has a limit, Unauthorized
     */
    setLimit({ limit, ...requested }: LimitRequest): Promise<ChangedKey> {
      const request = sql.jsonb({ ...requested, limit: toMicroLimit(limit) });
      return changeKey(connection, sql.fragment`set_key_limit(${request})`);
    },

    /**
     * Revokes a key, and returns the id of its organization. If `memberId` is null, the key may
     * belong to any user.
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
): Promise<ChangedKey> {
  return requireChanged(await connection.oneFirst(sql.type(answerRow)`SELECT ${call} AS answer`));
}

function toMicroLimit(limit: KeyLimit | null | undefined): JsonObject | null {
  return limit ? { micro: microFromCredits(limit.credits), per: limit.per } : null;
}

/** Creates an API key without a request, for example for tests. It has all scopes by default. */
export async function createKey(
  connection: CommonQueryMethods,
  pepper: string,
  request: Omit<KeyRequest, 'actingKeyId'>,
): Promise<{ keyId: string; key: string }> {
  const keys = createKeys(connection, pepper);
  const { meta, key } = await keys.create({ scopes, ...request, actingKeyId: null });
  return { keyId: meta.keyId, key };
}
