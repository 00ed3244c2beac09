/**
 * Finds the fields of a request body that the gateway ignores, for the `X-Ignored-Fields` header.
 */
import { z } from 'zod';
import { fieldError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import type { Context } from '../context.ts';
import { parseWith } from '../../domain/parsing.ts';

/** Header that lists the fields of a request that the gateway or the provider ignores. */
export const ignoredFieldsHeader = 'X-Ignored-Fields';
const namesMax = 20;
/** Pattern of the field names that the header may contain. Other names are not listed. */
const listedName = /^[\w$-]{1,64}$/;

/**
 * Parses a JSON body or the texts of a form, and lists the ignored fields in `X-Ignored-Fields`.
 * @throws GatewayError INVALID_REQUEST
 */
export function parseBody<Value>(
  ctx: Context,
  { schema, value, part = 'body' }: BodyToParse<Value>,
): Value {
  const parsed = parseWith(schema, value, part);
  throwIfRecipe(schema, value);
  const ignoredFields = findIgnoredFields(schema, value);
  if (ignoredFields.length > 0) ctx.set(ignoredFieldsHeader, ignoredFields.join(', '));
  return parsed;
}

/** @throws GatewayError INVALID_REQUEST if `recipe` would be ignored, and the caller charged for another request */
function throwIfRecipe(schema: z.ZodType, value: unknown): void {
  const object = unwrapObject(schema);
  if (!object || Object.hasOwn(object.shape, 'recipe')) return;
  if (!isRecord(value) || !Object.hasOwn(value, 'recipe')) return;
  const message = 'must be absent: only requests to /api/v1/studio/… can name a recipe';
  throw fieldError('INVALID_REQUEST', 'recipe', message);
}

interface BodyToParse<Value> {
  schema: z.ZodType<Value>;
  value: unknown;
  /** Defaults to `body`, which is JSON. */
  part?: 'body' | 'form';
}

/**
 * Returns the paths of the fields that are not in the schema and are therefore ignored. They
 * include fields of nested objects (`provider.order`), but not fields of objects in arrays.
 */
function findIgnoredFields(schema: z.ZodType, value: unknown): string[] {
  return [...new Set(listIgnored(schema, value, ''))].slice(0, namesMax);
}

function* listIgnored(schema: z.core.$ZodType, value: unknown, prefix: string): Generator<string> {
  const object = unwrapObject(schema);
  if (!object || !isRecord(value)) return;
  for (const [name, field] of Object.entries(value)) {
    const fieldSchema = Object.hasOwn(object.shape, name) ? object.shape[name] : undefined;
    if (fieldSchema) yield* listIgnored(fieldSchema, field, `${prefix}${name}.`);
    else {
      // The fields `metadata[a]` and `metadata[b]` of a form are `metadata` in JSON.
      const [listed = ''] = name.split('[', 1);
      if (listedName.test(listed))
        yield prefix + (Object.hasOwn(object.shape, listed) ? name : listed);
    }
  }
}

/**
 * Returns the object schema inside an optional, nullable or transformed schema. Undefined if there
 * is none, or if it rejects unknown fields.
 */
function unwrapObject(schema: z.core.$ZodType): z.ZodObject | undefined {
  if (schema instanceof z.ZodObject) return schema.def.catchall ? undefined : schema;
  if (schema instanceof z.ZodPipe) return unwrapObject(schema.def.in);
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) {
    return unwrapObject(schema.def.innerType);
  }
  return undefined;
}
