/** Strict schemas for Claude become what Anthropic's own SDK sends. */
import { transformJSONSchema } from '@anthropic-ai/sdk/lib/transform-json-schema';
import { expect, it } from 'vitest';
import { findStrictSchemaError } from '../../dev/sandbox/chat/strict-schemas.ts';
import { completionsRequestSchema } from '../../chat/formats/completions-request.ts';
import { messagesRequestSchema } from '../../chat/formats/messages-request.ts';
import { responsesRequestSchema } from '../../chat/formats/responses-request.ts';
import { chatModels } from '../../chat/models.ts';
import { anthropicProtocol } from '../../chat/protocols/chat-protocols.ts';
import { isRecursive, toStrictSchema } from '../../chat/protocols/strict-schema.ts';
import { assert } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import { say } from './chat-clients.ts';

const text = { type: 'string' };
const object = (properties: JsonObject, rest: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  ...rest,
});
const schemas: Readonly<Record<string, JsonObject>> = {
  limits: object({
    n: { type: 'integer', minimum: 1, maximum: 9, multipleOf: 2 },
    s: { ...text, minLength: 3, maxLength: 5, pattern: '^a', description: 'A word.' },
  }),
  lists: object({
    one: { type: 'array', items: text, minItems: 1, maxItems: 4, uniqueItems: true },
    two: { type: 'array', items: text, minItems: 2 },
    tuple: { type: 'array', prefixItems: [text, text], items: text },
    anything: { type: 'array' },
  }),
  unions: object({
    one: { oneOf: [{ const: 'a' }, { const: 'b' }], discriminator: { propertyName: 'x' } },
    any: { anyOf: [text, { type: 'null' }], default: null, title: 'Any' },
    all: { allOf: [object({ a: text })] },
    not: { ...text, not: { const: 'x' } },
  }),
  formats: object({ mail: { ...text, format: 'email' }, phone: { ...text, format: 'phone' } }),
  literals: object({
    list: { ...text, enum: ['a', 'b'] },
    value: { type: 'integer', const: 5 },
    objects: { type: 'object', enum: [{ a: 1 }] },
  }),
  objects: object(
    { map: { type: 'object', additionalProperties: text, patternProperties: { '^x': text } } },
    { required: ['map'], additionalProperties: true, $schema: 'x', minProperties: 1 },
  ),
  references: object(
    { one: { $ref: '#/$defs/One', description: 'dropped' } },
    { $defs: { One: object({ s: { ...text, minLength: 2 } }) } },
  ),
};

it.each(Object.entries(schemas))('%s', (_name, schema) => {
  const strict = toStrictSchema(schema);
  expect(strict).toEqual(transformJSONSchema(schema));
  expect(findStrictSchemaError(strict)).toBeNull();
  expect(isRecursive(schema)).toBe(false);
});

it('a schema without a type has that of its keywords', () => {
  expect(toStrictSchema({ properties: { a: text } })).toMatchObject({ type: 'object' });
  const nullable = toStrictSchema({ ...object({ a: text }), type: ['object', 'null'] });
  expect(nullable).toMatchObject({ properties: { a: text }, additionalProperties: false });
});

const recursive = object(
  { next: { $ref: '#/$defs/Node' } },
  { $defs: { Node: object({ next: { $ref: '#/$defs/Node' } }), Other: text } },
);
const chain = Object.fromEntries(
  Array.from({ length: 3000 }, (_, index) => [`n${index}`, { $ref: `#/$defs/n${index + 1}` }]),
);

it.each([
  ['a cycle', recursive, true],
  ['the root', object({ next: { $ref: '#' } }), true],
  ['a long chain', object({}, { $defs: chain }), false],
])('recursion by %s is found', (_name, schema, expected) => {
  expect(isRecursive(schema)).toBe(expected);
});

const model = chatModels.find(({ id }) => id === 'claude-sonnet-5');
assert(model, 'the catalog has no claude-sonnet-5');
const shared = { model: 'claude-sonnet-5', max_tokens: 100, messages: say('q') };
const requests = (schema: JsonObject, strict: boolean) => ({
  completions: completionsRequestSchema.parse({
    ...shared,
    tools: [{ type: 'function', function: { name: 't', parameters: schema, strict } }],
  }),
  responses: responsesRequestSchema.parse({
    model: 'claude-sonnet-5',
    input: 'q',
    tools: [{ type: 'function', name: 't', parameters: schema, strict }],
  }),
  messages: messagesRequestSchema.parse({
    ...shared,
    tools: [{ name: 't', input_schema: schema, strict }],
  }),
});

it.each(['completions', 'responses', 'messages'] as const)(
  'a strict tool of %s is converted, another one stays as it is',
  (door) => {
    const encode = (schema: JsonObject, strict: boolean) => {
      const { body } = requests(schema, strict)[door];
      return anthropicProtocol.encode({ model, body, stream: false });
    };
    for (const schema of Object.values(schemas)) {
      expect(encode(schema, true)['tools']).toMatchObject([
        { strict: true, input_schema: transformJSONSchema(schema) },
      ]);
      expect(encode(schema, false)['tools']).toMatchObject([{ input_schema: schema }]);
    }
    expect(() => encode(recursive, true)).toThrow(/tools\.0: must not be recursive/);
    expect(encode(recursive, false)['tools']).toMatchObject([{ input_schema: recursive }]);
  },
);
