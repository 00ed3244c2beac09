/**
 * Every string, array and record in the request body of an endpoint has a size limit in its schema.
 */
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { anyJson, createRecordSchema } from '../../domain/body-schema.ts';
import { endpoints } from '../../api/endpoints/index.ts';

const text = z.string().max(5);

/** Returns the path of each field in a schema that has no size limit. */
function listUnbounded(schema: z.ZodType): string[] {
  const described = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return [...findUnbounded(described, '(body)')];
}

type Described = z.core.JSONSchema._JSONSchema;

function* findUnbounded(described: Described, path: string): Generator<string> {
  if (typeof described === 'boolean') {
    if (described) yield path;
    return;
  }
  const { $defs = {}, type } = described;
  for (const [name, each] of Object.entries($defs)) yield* findUnbounded(each, name);
  if (described.$ref !== undefined || described.enum || 'const' in described) return;
  if (described.maxItems === 0 && described.type === 'array') return;
  const parts = described.anyOf ?? described.oneOf ?? described.allOf;
  if (parts) {
    for (const part of parts) yield* findUnbounded(part, path);
    return;
  }
  // One type, or several with `null` among them; a schema without a type allows any value.
  const types: unknown[] = type === undefined ? ['string', 'array', 'object'] : [type].flat();
  if (types.includes('string') && !described.maxLength) yield path;
  if (types.includes('array')) yield* findInList(described, `${path}[]`);
  if (types.includes('object')) yield* findInObject(described, path);
}

type DescribedPart = Exclude<Described, boolean>;

function* findInList(list: DescribedPart, path: string): Generator<string> {
  if (list.maxItems === undefined) yield path;
  for (const item of [list.items ?? [], list.prefixItems ?? []].flat()) {
    yield* findUnbounded(item, path);
  }
}

function* findInObject(object: DescribedPart, path: string): Generator<string> {
  const { properties, additionalProperties } = object;
  // Undeclared fields are rejected or dropped unless the schema allows them.
  if ((additionalProperties || !properties) && !object.maxProperties) yield `${path}{}`;
  else if (additionalProperties) yield* findUnbounded(additionalProperties, `${path}{}`);
  for (const [name, each] of Object.entries(properties ?? {})) {
    yield* findUnbounded(each, `${path}.${name}`);
  }
}

describe('the request body of an endpoint', () => {
  it.each<[string, z.ZodType]>([
    ['a text', z.string()],
    ['a text of a pattern', z.string().regex(/^[a-z]{3}$/)],
    ['a URL', z.url()],
    ['a list', z.array(z.int())],
    ['a list of texts', z.array(z.string()).max(3)],
    ['a list in a list', z.array(z.array(z.int())).max(3)],
    ['a tuple of texts', z.tuple([z.string()])],
    ['a record', z.record(text, z.int())],
    ['a loose object', z.looseObject({ b: text })],
    ['an object of anything', z.object({ b: z.strictObject({ c: z.string() }) })],
    ['anything', z.unknown()],
    ['any', z.any()],
    ['whatever a function takes', z.custom(() => true)],
    ['a text that is turned into something', z.string().transform(Number)],
    ['a text that may be absent', z.string().nullish()],
    ['a text with a default', z.string().default('')],
    ['one of several', z.union([z.int(), z.array(text)])],
    [
      'one of several by its type',
      z.discriminatedUnion('t', [z.object({ t: z.literal(1), b: z.string() })]),
    ],
    ['both of two', z.intersection(z.object({ b: z.string() }), z.object({}))],
    ['a lazy schema', z.lazy(() => z.string())],
  ])('is reported when it has no limit: %s', (_what, schema) => {
    const [path] = listUnbounded(z.strictObject({ a: schema }));
    expect(path).toContain('(body).a');
  });

  it('is accepted when its schema limits every part', () => {
    const schema = z.strictObject({
      a: text.optional(),
      b: z.array(text).max(3).default([]),
      c: z.union([z.literal('x'), z.enum(['y', 'z']), z.int(), z.boolean()]).nullish(),
      d: createRecordSchema(text, { nameLengthMax: 3, countMax: 2 }).optional(),
      e: anyJson.optional(),
    });
    expect(listUnbounded(schema)).toEqual([]);
    expect(schema.safeParse({ d: { a: 'x', b: 'y' }, e: [{ f: 1 }] }).success).toBe(true);
    expect(schema.safeParse({ d: { a: 'x', b: 'y', c: 'z' } }).success).toBe(false);
    expect(schema.safeParse({ d: { long: 'x' } }).success).toBe(false);
    expect(schema.safeParse({ e: [Array.from({ length: 5000 }, () => 1)] }).success).toBe(false);
  });

  // The texts of a form are bounded where forms are read (api/http/multipart.ts).
  const bodies = endpoints.flatMap(({ method, path, request }) => {
    const schema = request.body ?? request.content?.['application/json']?.schema;
    return schema ? [[`${method} ${path}`, schema] as const] : [];
  });

  it('is checked for more than 40 endpoints', () => expect(bodies.length).toBeGreaterThan(40));

  it.each(bodies)('has limits: %s', (_, schema) => expect(listUnbounded(schema)).toEqual([]));
});
