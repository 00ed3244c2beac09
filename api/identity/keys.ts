/**
 * API keys as their users manage them: list, create, rotate, revoke. Quota, expiry and what a key may
 * grant are decided by Postgres under the lock of the user, so racing requests cannot get past them.
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { assert } from '../../domain/assert.ts';
import { microFromCredits } from '../../domain/credits.ts';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { JsonObject } from '../../domain/json.ts';
import { keyBudget } from '../../jobs/ledger-verdicts.ts';
import type { Scope } from './access.ts';
import { budgetView, keyMeta, type keyLimit, type ListedKey } from './key-fields.ts';
import { macOfKey, newApiKey, prefixOfKey } from './key-format.ts';

/** Keys a user may hold (spec §8). */
const keysPerUserMax = 10;

type ApiKeyMeta = z.infer<typeof keyMeta>;
type KeyLimit = z.infer<typeof keyLimit>;

/** A new key; the only time the key itself is known. */
export interface NewKey {
  key: string;
  meta: ApiKeyMeta;
  organizationId: string;
}

/** A key that is wanted. */
interface WantedKey {
  /** The id it is to have; absent: a new one. */
  keyId?: string;
  memberId: string;
  /** The key that asks: the new one gets what that one has, or less. Null: an operator asks. */
  makerKeyId: string | null;
  name: string;
  scopes?: readonly Scope[] | undefined;
  allowedModels?: readonly string[] | null | undefined;
  expiresAtMs?: number | null | undefined;
  /** Null, or absent: none of its own. */
  limit?: KeyLimit | null | undefined;
  /** A key that already exists, e.g. the demo key of a stack whose database was emptied. */
  key?: string | undefined;
}

interface WantedRotation {
  memberId: string;
  makerKeyId: string;
  keyId: string;
  /** How long the old key still works. */
  overlapMs: number;
  /** Expiry of the new key; absent: that of the old one. */
  expiresAtMs?: number | null | undefined;
}

interface WantedLimit {
  keyId: string;
  /** Null: of anyone. */
  memberId: string | null;
  /** The key that asks; null: an operator asks. */
  makerKeyId: string | null;
  limit: KeyLimit | null;
}

/** Keys of users. */
export interface Keys {
  /** Keys that are not revoked, newest first. */
  list: (memberId: string) => Promise<ListedKey[]>;
  /** @throws GatewayError KEY_QUOTA_REACHED, INVALID_REQUEST, FORBIDDEN, NOT_FOUND, Unauthorized */
  create: (wanted: WantedKey) => Promise<NewKey>;
  /** @throws GatewayError as `create`, and KEY_ALREADY_REPLACED */
  rotate: (wanted: WantedRotation) => Promise<NewKey & { oldExpiresAt: number }>;
  /**
   * Sets what the key, and those that share its budget, may spend; null: no limit.
   * @throws GatewayError NOT_FOUND, FORBIDDEN when the key that asks has a limit itself, Unauthorized
   */
  setLimit: (wanted: WantedLimit) => Promise<{ meta: ApiKeyMeta; organizationId: string }>;
  /**
   * Revokes a key of this user (null: of anyone), at once and everywhere.
   * @returns its organization
   * @throws GatewayError NOT_FOUND when there is no such key, or it is somebody else's
   */
  revoke: (keyId: string, memberId: string | null) => Promise<string>;
}

const verdict = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.enum(['created', 'set']),
    organizationId: z.string(),
    meta: keyMeta,
    /** Of a rotation. */
    oldExpiresAt: z.number().optional(),
  }),
  z.object({ verdict: z.literal('exceeds_maker'), field: z.string() }),
  z.object({
    verdict: z.enum([
      'quota_reached',
      'expiry_past',
      'no_member',
      'not_found',
      'already_replaced',
      'maker_gone',
    ]),
  }),
]);
type Verdict = z.infer<typeof verdict>;

const answerRow = z.object({ answer: verdict });
const listRow = z.object({ meta: keyMeta, budget: keyBudget.nullable() });
const organizationRow = z.object({ organization: z.string().nullable() });

/** Keys over a pool or an open transaction. */
export function createKeys(connection: CommonQueryMethods, pepper: string): Keys {
  function minted(key: string, id = newId('key')): JsonObject {
    return {
      id,
      prefix: prefixOfKey(key),
      mac: macOfKey(key, pepper),
      quota: keysPerUserMax,
    };
  }

  return {
    async list(memberId) {
      const rows = await connection.any(sql.type(
        listRow,
      )`SELECT api_key_meta(k) AS meta, key_budget(k.id) AS budget FROM api_key k
        WHERE member_id = ${memberId} AND revoked_at IS NULL
          AND (replaced_by IS NULL OR expires_at > now())
        ORDER BY created_at DESC, id DESC`);
      return rows.map(({ meta, budget }) => ({ ...meta, budget: budgetView(budget) }));
    },

    async create(wanted) {
      const key = wanted.key ?? newApiKey();
      const request: JsonObject = {
        ...minted(key, wanted.keyId),
        memberId: wanted.memberId,
        makerKeyId: wanted.makerKeyId,
        name: wanted.name,
        scopes: wanted.scopes ? [...wanted.scopes] : null,
        allowedModels: wanted.allowedModels ? [...wanted.allowedModels] : null,
        expiresAtMs: wanted.expiresAtMs ?? null,
        limit: microLimit(wanted.limit),
      };
      const answer = await connection.oneFirst(
        sql.type(answerRow)`SELECT create_api_key(${sql.jsonb(request)}) AS answer`,
      );
      const { meta, organizationId } = accepted(answer);
      return { key, meta, organizationId };
    },

    async rotate(wanted) {
      const key = newApiKey();
      const request: JsonObject = {
        ...minted(key),
        memberId: wanted.memberId,
        makerKeyId: wanted.makerKeyId,
        keyId: wanted.keyId,
        overlapMs: wanted.overlapMs,
        expiresAtMs: wanted.expiresAtMs ?? null,
      };
      const answer = await connection.oneFirst(
        sql.type(answerRow)`SELECT rotate_api_key(${sql.jsonb(request)}) AS answer`,
      );
      const { meta, organizationId, oldExpiresAt } = accepted(answer);
      assert(oldExpiresAt !== undefined, 'a rotated key has an end');
      return { key, meta, organizationId, oldExpiresAt };
    },

    setLimit: (wanted) => setLimit(connection, wanted),

    async revoke(keyId, memberId) {
      const organizationId = await connection.oneFirst(
        sql.type(organizationRow)`SELECT revoke_api_key(${keyId}, ${memberId}) AS organization`,
      );
      if (organizationId === null) throw new GatewayError('NOT_FOUND', 'No such API key.');
      return organizationId;
    },
  };
}

async function setLimit(
  connection: CommonQueryMethods,
  { limit, ...wanted }: WantedLimit,
): ReturnType<Keys['setLimit']> {
  const request: JsonObject = { ...wanted, limit: microLimit(limit) };
  const answer = await connection.oneFirst(
    sql.type(answerRow)`SELECT set_key_limit(${sql.jsonb(request)}) AS answer`,
  );
  const { meta, organizationId } = accepted(answer);
  return { meta, organizationId };
}

function microLimit(limit: KeyLimit | null | undefined): JsonObject | null {
  return limit ? { micro: microFromCredits(limit.credits), per: limit.per } : null;
}

/** The new key's record, or the refusal as an error of the table. */
function accepted(answer: Verdict): Extract<Verdict, { verdict: 'created' | 'set' }> {
  switch (answer.verdict) {
    case 'created':
    case 'set':
      return answer;
    case 'quota_reached':
      throw new GatewayError('KEY_QUOTA_REACHED');
    case 'expiry_past':
      throw pastExpiry();
    case 'exceeds_maker':
      throw new GatewayError(
        'FORBIDDEN',
        `A key can do no more than the key that creates it: ${answer.field} goes beyond.`,
      );
    case 'no_member':
      throw new GatewayError('NOT_FOUND', 'No such user.');
    case 'not_found':
      throw new GatewayError('NOT_FOUND', 'No such API key.');
    case 'already_replaced':
      throw new GatewayError('KEY_ALREADY_REPLACED');
    case 'maker_gone':
      // Revoked or expired since it was admitted.
      throw new GatewayError('Unauthorized');
    default:
      return answer satisfies never;
  }
}

/** The refusal of an expiry that is not in the future. */
export function pastExpiry(): GatewayError {
  const message = 'must be in the future';
  return fieldError('INVALID_REQUEST', 'expiresAt', message);
}
