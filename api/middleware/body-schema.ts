/**
 * Schemas of request bodies. Each text, list and record in one has a bound, or the process does not
 * start: what is unbounded in a schema is bounded by memory only.
 */
import { z } from 'zod';
import { assert } from '../../domain/errors.ts';
import type { Json, JsonObject } from '../../domain/json.ts';

declare const bounded: unique symbol;

/** A schema that `bodySchema` has looked at; bodies are parsed by no other. */
export type BodySchema<Body> = z.ZodType<Body> & { readonly [bounded]: true };

/**
 * Declares the schema of a body.
 * @throws AssertionError naming what has no bound
 */
export function bodySchema<Schema extends z.ZodType>(
  schema: Schema,
): Schema & BodySchema<z.output<Schema>> {
  const described = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  const unbounded = [...unboundedIn(described, '(body)')];
  assert(unbounded.length === 0, `a body has bounds: ${unbounded.join(', ')}`);
  // oxlint-disable-next-line no-unsafe-type-assertion -- the mark exists for the compiler only
  return schema as Schema & BodySchema<z.output<Schema>>;
}

/** Entries of a list or record in JSON that no schema describes further. */
const entriesMax = 4096;
/** Characters of a text in it: more than any model reads. */
const textMax = 10_000_000;
const bounds = { maxLength: textMax, maxItems: entriesMax, maxProperties: entriesMax };

function isBounded(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= textMax;
  if (typeof value !== 'object' || value === null) return true;
  const entries: unknown[] = Object.values(value);
  return entries.length <= entriesMax && entries.every(isBounded);
}

function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Any JSON: at most 4,096 entries in each list and record of it. */
export const anyJson = z
  .custom<Json>(isBounded, 'is too large')
  .meta({ ...bounds, override: bounds });

const objectBounds = { type: 'object' as const, maxProperties: entriesMax };
/** Any JSON object, with the bounds of `anyJson`. */
export const anyJsonObject = z
  .custom<JsonObject>(
    (value) => isRecord(value) && isBounded(value),
    `must be an object, with at most ${entriesMax} entries in each list and object`,
  )
  .meta({ ...objectBounds, override: objectBounds });

interface RecordBounds {
  nameMax: number;
  countMax: number;
  /** What every name looks like, and how that is said. */
  nameForm?: RegExp;
  nameRule?: string;
}

/** A record of so many entries at most; of a larger one no entry is looked at. */
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
  // Here, where no name is passed over: a record of zod's leaves `__proto__` out without a word.
  const isMisnamed = (name: string): boolean => nameForm !== undefined && !nameForm.test(name);
  const hasRoom = (given: unknown): given is JsonObject =>
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

type Described = z.core.JSONSchema._JSONSchema;

/** Paths of what has no bound. */
function* unboundedIn(described: Described, path: string): Generator<string> {
  if (typeof described === 'boolean') {
    if (described) yield path;
    return;
  }
  const { $defs = {}, type } = described;
  for (const [name, each] of Object.entries($defs)) yield* unboundedIn(each, name);
  if (described.$ref !== undefined || described.enum || 'const' in described) return;
  const parts = described.anyOf ?? described.oneOf ?? described.allOf;
  if (parts) {
    for (const part of parts) yield* unboundedIn(part, path);
    return;
  }
  // One type, or several of which one may be `null`; what has none may be anything.
  const types: unknown[] = type === undefined ? ['string', 'array', 'object'] : [type].flat();
  if (types.includes('string') && !described.maxLength) yield path;
  if (types.includes('array')) yield* unboundedList(described, `${path}[]`);
  if (types.includes('object')) yield* unboundedObject(described, path);
}

type DescribedPart = Exclude<Described, boolean>;

function* unboundedList(list: DescribedPart, path: string): Generator<string> {
  if (list.maxItems === undefined) yield path;
  for (const item of [list.items ?? [], list.prefixItems ?? []].flat()) {
    yield* unboundedIn(item, path);
  }
}

function* unboundedObject(object: DescribedPart, path: string): Generator<string> {
  const { properties, additionalProperties } = object;
  // What is not declared is refused or dropped, unless it is asked for.
  if ((additionalProperties || !properties) && !object.maxProperties) yield `${path}{}`;
  else if (additionalProperties) yield* unboundedIn(additionalProperties, `${path}{}`);
  for (const [name, each] of Object.entries(properties ?? {})) {
    yield* unboundedIn(each, `${path}.${name}`);
  }
}
