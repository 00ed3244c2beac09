/**
 * Schemas for request fields whose content the caller chooses: any JSON value, and records with any
 * names. Both have size limits, because a value without a limit could fill the memory.
 */
import { z } from 'zod';
import { isRecord, type Json, type JsonObject } from './json.ts';

/** Maximum number of entries in one array or object. */
const entriesMax = 4096;
/** Maximum length of one string; no model accepts a longer one. */
const textMax = 10_000_000;
const jsonBounds = { maxLength: textMax, maxItems: entriesMax, maxProperties: entriesMax };

function isWithinBounds(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= textMax;
  if (typeof value !== 'object' || value === null) return true;
  const entries: unknown[] = Object.values(value);
  return entries.length <= entriesMax && entries.every(isWithinBounds);
}

/** Schema of any JSON value within `jsonBounds`. */
export const anyJson = z
  .custom<Json>(
    isWithinBounds,
    `must have at most ${entriesMax} entries per array or object, and ${textMax} characters per string`,
  )
  .meta({ ...jsonBounds, override: jsonBounds });

/** JSON Schema of an object with the limits of `anyJson`. */
export const objectBounds = { type: 'object' as const, maxProperties: entriesMax };
/** Schema of any JSON object, with the limits of `anyJson`. */
export const anyJsonObject = z
  .custom<JsonObject>(
    (value) => isRecord(value) && isWithinBounds(value),
    `must be an object, with at most ${entriesMax} entries in each array and object`,
  )
  .meta({ ...objectBounds, override: objectBounds });

interface RecordBounds {
  nameLengthMax: number;
  countMax: number;
  /** Pattern that every name must match. */
  namePattern?: RegExp;
  /** Description of the pattern for error messages. */
  nameRule?: string;
}

/**
 * Creates the schema of a record. A record with too many entries is rejected before its entries are
 * checked.
 */
export function createRecordSchema<Value extends string | number | JsonObject>(
  value: z.ZodType<Value, Value>,
  { nameLengthMax, countMax, namePattern, nameRule }: RecordBounds,
) {
  const { override: _, ...valueSchema } = z.toJSONSchema(value, {
    io: 'input',
    unrepresentable: 'any',
  });
  const recordSchema: z.core.JSONSchema.ObjectSchema = {
    type: 'object',
    maxProperties: countMax,
    propertyNames: {
      type: 'string',
      maxLength: nameLengthMax,
      ...(namePattern && { pattern: namePattern.source }),
    },
    additionalProperties: valueSchema,
  };
  // Names are checked here, because `z.record` ignores the name `__proto__` without an error.
  const isInvalidName = (name: string): boolean =>
    namePattern !== undefined && !namePattern.test(name);
  const isSmallRecord = (input: unknown): input is Record<string, unknown> =>
    isRecord(input) && Object.keys(input).length <= countMax;
  return z
    .custom<Record<string, Value>>(
      (input) => isSmallRecord(input) && !Object.keys(input).some(isInvalidName),
      {
        error: ({ input }) =>
          isSmallRecord(input)
            ? `names ${nameRule}`
            : `must be an object of at most ${countMax} entries`,
      },
    )
    .meta({
      ...recordSchema,
      override: ({ jsonSchema }: { jsonSchema: object }) => {
        Object.assign(jsonSchema, recordSchema);
      },
    })
    .pipe(z.record(z.string().max(nameLengthMax), value));
}
