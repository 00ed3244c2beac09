/**
 * Schemas of the free parts of request bodies: JSON of any shape, and records with names that the
 * caller chooses. Both have size limits, because a value without a limit could fill the memory.
 */
import { z } from 'zod';
import { isRecord, type Json, type JsonObject } from '../../domain/json.ts';

/** Highest number of entries of one list or object in JSON of any shape. */
const entriesMax = 4096;
/** Highest number of characters of one string in JSON of any shape: more than any model accepts. */
const textMax = 10_000_000;
const bounds = { maxLength: textMax, maxItems: entriesMax, maxProperties: entriesMax };

function isBounded(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= textMax;
  if (typeof value !== 'object' || value === null) return true;
  const entries: unknown[] = Object.values(value);
  return entries.length <= entriesMax && entries.every(isBounded);
}

/** Schema of any JSON value within `bounds`. */
export const anyJson = z
  .custom<Json>(isBounded, 'is too large')
  .meta({ ...bounds, override: bounds });

const objectBounds = { type: 'object' as const, maxProperties: entriesMax };
/** Schema of any JSON object, with the limits of `anyJson`. */
export const anyJsonObject = z
  .custom<JsonObject>(
    (value) => isRecord(value) && isBounded(value),
    `must be an object, with at most ${entriesMax} entries in each list and object`,
  )
  .meta({ ...objectBounds, override: objectBounds });

interface RecordBounds {
  nameMax: number;
  countMax: number;
  /** Pattern of every name. */
  nameForm?: RegExp;
  /** Text of the pattern in error messages. */
  nameRule?: string;
}

/** Makes the schema of a record; a larger record is rejected before its entries are checked. */
export function recordOf<Value extends string | number>(
  value: z.ZodType<Value, Value>,
  { nameMax, countMax, nameForm, nameRule }: RecordBounds,
) {
  const recordSchema: z.core.JSONSchema.ObjectSchema = {
    type: 'object',
    maxProperties: countMax,
    propertyNames: {
      type: 'string',
      maxLength: nameMax,
      ...(nameForm && { pattern: nameForm.source }),
    },
    additionalProperties: z.toJSONSchema(value, { io: 'input' }),
  };
  // Names are checked here, because `z.record` ignores the name `__proto__` without an error.
  const isMisnamed = (name: string): boolean => nameForm !== undefined && !nameForm.test(name);
  const hasRoom = (input: unknown): input is Record<string, unknown> =>
    isRecord(input) && Object.keys(input).length <= countMax;
  return z
    .custom<Record<string, Value>>(
      (input) => hasRoom(input) && !Object.keys(input).some(isMisnamed),
      {
        error: ({ input }) =>
          hasRoom(input) ? `names ${nameRule}` : `must be an object of at most ${countMax} entries`,
      },
    )
    .meta({
      ...recordSchema,
      override: ({ jsonSchema }: { jsonSchema: object }) => {
        Object.assign(jsonSchema, recordSchema);
      },
    })
    .pipe(z.record(z.string().max(nameMax), value));
}
