/** Fields of a request body that its schema drops, for the `X-Ignored-Fields` response header. */
import { z } from 'zod';
import { isRecord } from '../../domain/json.ts';

const namesMax = 20;
/** Names that are safe in a header; fields with other names are not listed. */
const shownName = /^[\w$-]{1,64}$/;

/**
 * Returns the names of the fields that a schema does not know and drops: fields of the body itself
 * and of the objects in it (`provider.order`), but not those inside lists.
 */
export function ignoredFields(schema: z.ZodType, value: unknown): string[] {
  return [...namesIn(schema, value, '')].slice(0, namesMax);
}

function* namesIn(schema: z.core.$ZodType, value: unknown, prefix: string): Generator<string> {
  const object = objectIn(schema);
  if (!object || !isRecord(value)) return;
  for (const [name, inner] of Object.entries(value)) {
    const known = Object.hasOwn(object.shape, name) ? object.shape[name] : undefined;
    if (known) yield* namesIn(known, inner, `${prefix}${name}.`);
    else if (shownName.test(name)) yield prefix + name;
  }
}

/** Returns the schema of an object whose unknown fields are dropped; undefined for all others. */
function objectIn(schema: z.core.$ZodType): z.ZodObject | undefined {
  if (schema instanceof z.ZodObject) return schema.def.catchall ? undefined : schema;
  if (schema instanceof z.ZodPipe) return objectIn(schema.def.in);
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) {
    return objectIn(schema.def.innerType);
  }
  return undefined;
}
