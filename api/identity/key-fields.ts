/** Fields of requests about API keys (spec §4.3), shared by the routes of callers and operators. */
import { z } from 'zod';
import { charactersOf } from '../../domain/field-messages.ts';
import { toResponse } from '../../domain/json.ts';
import { keyBudget } from '../../jobs/ledger-verdicts.ts';
import { scopes } from './access.ts';

const nameLengthMax = 64;
/** Latest expiry, 9999-12-31T23:59:59.999Z: later years have more than four digits. */
const expiryMaxMs = 253_402_300_799_999;

/** Patterns of one character: any except control characters, and any visible character. */
const printable = '[^\\u0000-\\u001f\\u007f-\\u009f]';
const visible = '[^\\s\\u0000-\\u001f\\u007f-\\u009f]';

/** Makes the schema of a text that is not blank and has no control characters. */
export const plainText = (lengthMax: number) =>
  z
    .string()
    .min(1)
    .max(lengthMax * 2, { error: `must have at most ${lengthMax} characters`, abort: true })
    // Characters are counted, not UTF-16 units, so an emoji is one.
    .refine((text) => charactersOf(text) <= lengthMax, `must have at most ${lengthMax} characters`)
    .refine((text) => text.trim() !== '', 'must not be blank')
    .refine((text) => !/\p{Cc}/u.test(text), 'must not contain control characters')
    .meta({ maxLength: lengthMax, pattern: `^${printable}*${visible}${printable}*$` });

/** Name of a key: 1–64 characters. */
export const keyName = plainText(nameLengthMax);

/** Expiry in milliseconds since 1970; the database checks that it is in the future. */
export const keyExpiry = z.int().min(0).max(expiryMaxMs).meta({
  description:
    'Unix milliseconds in the future; null or absent: the key expires with the key that creates it.',
});

/** Scopes of a key: at least one, each once. */
export const keyScopes = z
  .array(z.enum(scopes))
  .min(1)
  .max(scopes.length)
  .refine((list) => new Set(list).size === list.length, 'must not repeat a scope');

/** Ids of the models a key may use. */
export const keyModels = z.array(z.string().min(1).max(200)).min(1).max(200);

const limitCreditsMax = 1_000_000_000;

/** Limit of the credits that a key may spend in a calendar period (UTC; weeks begin on Mondays). */
export const keyLimit = z
  .strictObject({
    credits: z.number().min(0).max(limitCreditsMax),
    per: z.enum(['day', 'week', 'month', 'total']),
  })
  .meta({ id: 'KeyLimit', description: 'Credits per calendar period, UTC; `total`: no period.' });

/** Time in the description of a key. */
export const unixMs = z.int().meta({ description: 'Unix milliseconds.' });

/** Key as shown to its user (spec §2.6), with its permissions. */
export const keyMeta = z
  .object({
    keyId: z.string(),
    keyPrefix: z.string(),
    name: z.string(),
    createdAt: unixMs,
    expiresAt: unixMs.nullable(),
    lastUsedAt: unixMs.nullable(),
    scopes: z.array(z.enum(scopes)),
    allowedModels: z.array(z.string()).nullable().meta({ description: 'Null: all models.' }),
    limit: keyLimit.nullable().meta({ description: 'Null: limited by the balance only.' }),
  })
  .meta({ id: 'ApiKeyMeta' });

/** Use of a limit in its period. */
export const budgetSchema = z
  .object({
    limit: z.number(),
    per: keyBudget.shape.per,
    used: z.number().meta({ description: 'Reserved and charged in this period.' }),
    remaining: z.number(),
    resetsAt: z.iso.datetime().nullable().meta({ description: 'Null: the period never ends.' }),
  })
  .nullable()
  .meta({ description: 'Credits used of the `limit`; null if there is no limit.' });

/** Shows a budget in credits; amounts of `key_budget` are micro-credits. */
export function showBudget(budget: z.infer<typeof keyBudget> | null): z.infer<typeof budgetSchema> {
  if (!budget) return null;
  const { limit: limitMicro, used: usedMicro, per, resetsAtMs } = budget;
  const remainingMicro = Math.max(0, limitMicro - usedMicro);
  return toResponse({ limitMicro, per, usedMicro, remainingMicro, resetsAtMs });
}

/** Key in a list. */
export const listedKey = keyMeta.extend({ budget: budgetSchema });
export type ListedKey = z.infer<typeof listedKey>;
