/** No request schema is without bounds: `bodySchema` refuses it, and bodies are parsed by no other. */
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { anyJson, bodySchema, recordOf } from '../../api/middleware/body-schema.ts';
import { operations } from '../../api/operations/index.ts';

const text = z.string().max(5);

describe('a body schema', () => {
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
    ['a schema that is told later', z.lazy(() => z.string())],
  ])('is not taken without a bound: %s', (_what, schema) => {
    expect(() => bodySchema(z.strictObject({ a: schema }))).toThrow('(body).a');
  });

  it('is taken with its bounds', () => {
    const schema = bodySchema(
      z.strictObject({
        a: text.optional(),
        b: z.array(text).max(3).default([]),
        c: z.union([z.literal('x'), z.enum(['y', 'z']), z.int(), z.boolean()]).nullish(),
        d: recordOf(text, { nameMax: 3, countMax: 2 }).optional(),
        e: anyJson.optional(),
      }),
    );
    expect(schema.safeParse({ d: { a: 'x', b: 'y' }, e: [{ f: 1 }] }).success).toBe(true);
    expect(schema.safeParse({ d: { a: 'x', b: 'y', c: 'z' } }).success).toBe(false);
    expect(schema.safeParse({ d: { long: 'x' } }).success).toBe(false);
    expect(schema.safeParse({ e: [Array.from({ length: 5000 }, () => 1)] }).success).toBe(false);
  });

  it('stands behind every operation of the reference', () => {
    const json = operations.flatMap(({ path, request }) => {
      const schema = request.body ?? request.content?.['application/json']?.schema;
      return schema ? [[path, schema] as const] : [];
    });
    expect(json.length).toBeGreaterThan(15);
    for (const [path, schema] of json) expect(() => bodySchema(schema), path).not.toThrow();
  });
});
