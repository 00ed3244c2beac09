/**
 * Lists, creates, rotates and revokes the API keys of users. Postgres checks quota, expiry and
 * permissions while the user's row is locked, so that parallel requests cannot exceed them.
 */
import { z } from 'zod';
import { fieldError, GatewayError, assert } from '../domain/errors.ts';
import { countCharacters } from '../domain/field-messages.ts';
import { toResponse, type JsonObject } from '../domain/json.ts';
import { keyBudget, microFromCredits } from '../domain/credits.ts';
import {
  scopes,
  keysPerUserMax,
  type Scope,
  calculateKeyMac,
  generateApiKey,
  extractKeyPrefix,
} from './access.ts';
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { newId } from '../domain/ids.ts';

const nameLengthMax = 64;
/** Latest expiry: 9999-12-31T23:59:59.999Z, because later years have more than four digits. */
const expiryMaxMs = 253_402_300_799_999;

/** Pattern of one character that is not a control character. */
const printable = '[^\\u0000-\\u001f\\u007f-\\u009f]';
/** Pattern of one visible character. */
const visible = '[^\\s\\u0000-\\u001f\\u007f-\\u009f]';

/** Creates the schema of a string that is not blank and has no control characters. */
export const plainTextSchema = (lengthMax: number) =>
  z
    .string()
    .min(1)
    .max(lengthMax * 2, { error: `must have at most ${lengthMax} characters`, abort: true })
    // The limit counts characters, not UTF-16 code units, so an emoji counts as one.
    .refine(
      (text) => countCharacters(text) <= lengthMax,
      `must have at most ${lengthMax} characters`,
    )
    .refine((text) => text.trim() !== '', 'must not be blank')
    .refine((text) => !/\p{Cc}/u.test(text), 'must not contain control characters')
    .meta({
      maxLength: lengthMax,
      pattern: `^${printable}*${visible}${printable}*$`,
    });

/** Name of an API key, 1–64 characters. */
export const keyName = plainTextSchema(nameLengthMax);

/** Expiry of a key in milliseconds since 1970. The database checks that it is in the future. */
export const keyExpiry = z.int().min(0).max(expiryMaxMs).meta({
  description:
    'Expiry in Unix milliseconds, in the future. If null or omitted, the key expires together with the key that creates it.',
});

/** Scopes of a key: at least one, without repetition. */
export const keyScopes = z
  .array(z.enum(scopes))
  .min(1)
  .max(scopes.length)
  .refine((list) => new Set(list).size === list.length, 'must not repeat a scope');

/** Ids of the models that a key may use. */
export const keyModels = z.array(z.string().min(1).max(200)).min(1).max(200);

const limitCreditsMax = 1_000_000_000;

/** Maximum credits that a key may spend per calendar period in UTC; weeks begin on Mondays. */
export const keyLimit = z
  .strictObject({
    credits: z.number().min(0).max(limitCreditsMax),
    per: z.enum(['day', 'week', 'month', 'total']),
  })
  .meta({
    id: 'KeyLimit',
    description:
      'Maximum credits per calendar period in UTC. With `total`, the limit is for the lifetime of the key.',
  });

/** Maximum requests per minute of a key or an organization. */
export const rateLimit = z.int().min(1).max(1_000_000);

/** Maximum number of open jobs of a key or an organization. */
export const jobsMax = z.int().min(1).max(100_000);

/** Timestamp in the JSON of an API key. */
export const unixMs = z.int().meta({ description: 'Unix milliseconds.' });

/** API key as its user sees it, without the secret (spec §2.6). */
export const keyMeta = z
  .object({
    keyId: z.string(),
    keyPrefix: z.string(),
    name: z.string(),
    createdAt: unixMs,
    expiresAt: unixMs.nullable(),
    lastUsedAt: unixMs.nullable(),
    scopes: z.array(z.enum(scopes)),
    allowedModels: z
      .array(z.string())
      .nullable()
      .meta({ description: 'Ids of the allowed models. Null if all models are allowed.' }),
    limit: keyLimit.nullable().meta({
      description: 'Spending limit. Null if only the balance limits the key.',
    }),
    rateLimit: rateLimit.nullable().meta({
      description: 'Requests per minute. Null if the default limit applies.',
    }),
    jobsMax: jobsMax.nullable().meta({
      description:
        'Jobs that may be open at the same time. Null if only the organization limits them.',
    }),
  })
  .meta({ id: 'ApiKeyMeta' });

/** Spending of a key in the current period of its limit. */
export const budgetSchema = z
  .object({
    limit: z.number(),
    per: keyBudget.shape.per,
    used: z.number().meta({ description: 'Credits reserved and charged in this period.' }),
    remaining: z.number(),
    resetsAt: z.iso
      .datetime()
      .nullable()
      .meta({ description: 'End of the period. Null if the period never ends.' }),
  })
  .nullable()
  .meta({
    description: 'Spending in the current period of the `limit`. Null if the key has no limit.',
  });

/** Converts a budget from micro-credits to the credits of a response. */
export function formatBudget(
  budget: z.infer<typeof keyBudget> | null,
): z.infer<typeof budgetSchema> {
  if (!budget) return null;
  const { limit: limitMicro, used: usedMicro, per, resetsAtMs } = budget;
  const remainingMicro = Math.max(0, limitMicro - usedMicro);
  return toResponse({ limitMicro, per, usedMicro, remainingMicro, resetsAtMs });
}

/** API key in a list, with its spending. */
export const listedKey = keyMeta.extend({ budget: budgetSchema });
export type ListedKey = z.infer<typeof listedKey>;

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
  userId: string;
  /** Id of the request's API key, whose permissions the new key must not exceed. Null: operator. */
  actingKeyId: string | null;
  name: string;
  scopes?: readonly Scope[] | undefined;
  allowedModels?: readonly string[] | null | undefined;
  expiresAtMs?: number | null | undefined;
  limit?: KeyLimit | null | undefined;
  rateLimit?: number | null | undefined;
  jobsMax?: number | null | undefined;
  /**
   * Secret of the new key. Set only to create a key with a known secret, such as the demo key.
   * Defaults to a random secret.
   */
  key?: string | undefined;
}

interface RotationRequest {
  userId: string;
  actingKeyId: string;
  keyId: string;
  /** Time that the old key stays valid, in milliseconds. */
  overlapMs: number;
  /** Expiry of the new key. Defaults to the expiry of the old one. */
  expiresAtMs?: number | null | undefined;
}

/** Change of limits: null removes a limit, and an omitted one stays. */
interface LimitRequest {
  keyId: string;
  /** Id of the key's user. Null if the key may belong to any user. */
  userId: string | null;
  /** Id of the API key that authenticates the request. Null for an operator. */
  actingKeyId: string | null;
  limit?: KeyLimit | null | undefined;
  rateLimit?: number | null | undefined;
  jobsMax?: number | null | undefined;
}

/** Schema of the result of an SQL function that creates or changes a key (keys.sql). */
const keyResult = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.enum(['created', 'set']),
    organizationId: z.string(),
    meta: keyMeta,
    /** Expiry of the old key after a rotation, in milliseconds since 1970. */
    oldExpiresAt: z.number().optional(),
  }),
  z.object({ verdict: z.literal('exceeds_acting_key'), field: z.string() }),
  z.object({
    verdict: z.enum([
      'quota_reached',
      'expiry_past',
      'no_user',
      'not_found',
      'already_replaced',
      'acting_key_invalid',
      'acting_key_limited',
    ]),
  }),
]);
type KeyResult = z.infer<typeof keyResult>;
/** Result for a key that was created or changed. */
export type ChangedKey = Extract<KeyResult, { verdict: 'created' | 'set' }>;

/** Returns the new or changed key. @throws GatewayError if the database rejected the request */
function requireChanged(result: KeyResult): ChangedKey {
  switch (result.verdict) {
    case 'created':
    case 'set':
      return result;
    case 'quota_reached':
      throw new GatewayError('KEY_QUOTA_REACHED');
    case 'expiry_past':
      throw pastExpiryError();
    case 'exceeds_acting_key':
      throw new GatewayError(
        'FORBIDDEN',
        `A key must not have more permissions than the key that creates it: ${result.field} exceeds them.`,
      );
    case 'acting_key_limited':
      throw new GatewayError('FORBIDDEN', 'A key that has a limit may not change limits.');
    case 'no_user':
      throw new GatewayError('NOT_FOUND', 'No such user.');
    case 'not_found':
      throw new GatewayError('NOT_FOUND', 'No such API key.');
    case 'already_replaced':
      throw new GatewayError('KEY_ALREADY_REPLACED');
    case 'acting_key_invalid':
      // The key of the request was revoked or expired while the request was running.
      throw new GatewayError('Unauthorized');
    default:
      return result satisfies never;
  }
}

/** Returns the error for an expiry that is not in the future. */
export function pastExpiryError(): GatewayError {
  const message = 'must be in the future';
  return fieldError('INVALID_REQUEST', 'expiresAt', message);
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
    async list(userId: string): Promise<ListedKey[]> {
      const rows = await connection.any(sql.type(
        listRow,
      )`SELECT api_key_meta(k) AS meta, key_budget(k.id) AS budget FROM api_key k
        WHERE user_id = ${userId} AND revoked_at IS NULL
          AND (replaced_by IS NULL OR expires_at > now())
        ORDER BY created_at DESC, id DESC`);
      return rows.map(({ meta, budget }) => ({ ...meta, budget: formatBudget(budget) }));
    },

    /** Creates a key. @throws GatewayError KEY_QUOTA_REACHED, FORBIDDEN, NOT_FOUND, Unauthorized */
    async create({ key = generateApiKey(), keyId, ...requested }: KeyRequest): Promise<NewKey> {
      const request = sql.jsonb({
        ...createSecretFields(key, pepper, keyId),
        userId: requested.userId,
        actingKeyId: requested.actingKeyId,
        name: requested.name,
        scopes: requested.scopes ? [...requested.scopes] : null,
        allowedModels: requested.allowedModels ? [...requested.allowedModels] : null,
        expiresAtMs: requested.expiresAtMs ?? null,
        limit: toMicroLimit(requested.limit),
        rateLimit: requested.rateLimit ?? null,
        jobsMax: requested.jobsMax ?? null,
      });
      const createdKey = await changeKey(connection, sql.fragment`create_api_key(${request})`);
      return { key, meta: createdKey.meta, organizationId: createdKey.organizationId };
    },

    /** Replaces a key by a new one. @throws GatewayError KEY_ALREADY_REPLACED, FORBIDDEN, NOT_FOUND */
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
     * Sets limits of a key and of the keys that share them.
     * @throws GatewayError NOT_FOUND, FORBIDDEN if the acting key has a limit, Unauthorized
     */
    setLimits({ limit, ...requested }: LimitRequest): Promise<ChangedKey> {
      const changed = limit === undefined ? {} : { limit: toMicroLimit(limit) };
      const request = sql.jsonb({ ...requested, ...changed });
      return changeKey(connection, sql.fragment`set_key_limits(${request})`);
    },

    /**
     * Revokes a key, and returns the id of its organization. If `userId` is null, the key may
     * belong to any user.
     * @throws GatewayError NOT_FOUND
     */
    async revoke(keyId: string, userId: string | null): Promise<string> {
      const organizationId = await connection.oneFirst(
        sql.type(organizationRow)`SELECT revoke_api_key(${keyId}, ${userId}) AS organization`,
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
