/**
 * Schemas of parts of request bodies that have no fixed fields: any JSON, and records. Each has
 * limits, as every text, list and record of a body must have (test/api/body-schema.test.ts),
 * because a schema without limits is limited by memory only.
 */
import { z } from 'zod';
import { isRecord, type Json, type JsonObject } from '../../domain/json.ts';

/** Entries of a list or record in JSON without a schema. */
const entriesMax = 4096;
/** Characters of a text in JSON without a schema, more than any model reads. */
const textMax = 10_000_000;
const bounds = { maxLength: textMax, maxItems: entriesMax, maxProperties: entriesMax };

function isBounded(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= textMax;
  if (typeof value !== 'object' || value === null) return true;
  const entries: unknown[] = Object.values(value);
  return entries.length <= entriesMax && entries.every(isBounded);
}

/** Any JSON, with at most 4,096 entries in each list and record. */
export const anyJson = z
  .custom<Json>(isBounded, 'is too large')
  .meta({ ...bounds, override: bounds });

const objectBounds = { type: 'object' as const, maxProperties: entriesMax };
/** Any JSON object, with the limits of `anyJson`. */
export const anyJsonObject = z
  .custom<JsonObject>(
    (value) => isRecord(value) && isBounded(value),
    `must be an object, with at most ${entriesMax} entries in each list and object`,
  )
  .meta({ ...objectBounds, override: objectBounds });

interface RecordBounds {
  nameMax: number;
  countMax: number;
  /** Pattern of the names of a record, and its description in error messages. */
  nameForm?: RegExp;
  nameRule?: string;
}

/**
 * Makes the schema of a record with at most `countMax` entries; entries of a larger record are not
 * checked.
 */
export function recordOf<Value extends string | number>(
  value: z.ZodType<Value, Value>,
  { nameMax, countMax, nameForm, nameRule }: RecordBounds,
) {
  const described: z.core.JSONSchema.ObjectSchema = {
    type: 'object',
    maxProperties: countMax,
    propertyNames: {
      type: 'string',
      maxLength: nameMax,
      ...(nameForm && { pattern: nameForm.source }),
    },
    additionalProperties: z.toJSONSchema(value, { io: 'input' }),
  };
  // The names are checked here, because a zod record silently drops `__proto__`.
  const isMisnamed = (name: string): boolean => nameForm !== undefined && !nameForm.test(name);
  const hasRoom = (given: unknown): given is Record<string, unknown> =>
    isRecord(given) && Object.keys(given).length <= countMax;
  return z
    .custom<Record<string, Value>>(
      (given) => hasRoom(given) && !Object.keys(given).some(isMisnamed),
      {
        error: ({ input }) =>
          hasRoom(input)
            ? `a name ${nameRule}`
            : `must be an object of at most ${countMax} entries`,
      },
    )
    .meta({
      ...described,
      override: ({ jsonSchema }: { jsonSchema: object }) => {
        Object.assign(jsonSchema, described);
      },
    })
    .pipe(z.record(z.string().max(nameMax), value));
}
