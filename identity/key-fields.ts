/**
 * Request and response fields of API keys (spec §4.3), shared by the endpoints of callers and
 * operators.
 */
import { z } from 'zod';
import { countCharacters } from '../domain/field-messages.ts';
import { toResponse } from '../domain/json.ts';
import { keyBudget } from '../domain/ledger-results.ts';
import { scopes } from './access.ts';

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
    limit: keyLimit
      .nullable()
      .meta({ description: 'Spending limit. Null if only the balance limits the key.' }),
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
