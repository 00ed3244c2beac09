/** Generates a value that matches a JSON Schema, as a model does for structured outputs and tool arguments. */
import { z } from 'zod';

/** JSON Schema keywords that are supported; others are ignored. */
const keywords = z.looseObject({
  type: z.union([z.string(), z.array(z.string())]).optional(),
  enum: z.array(z.unknown()).optional(),
  properties: z.record(z.string(), z.unknown()).optional(),
  items: z.unknown().optional(),
  anyOf: z.array(z.unknown()).optional(),
  oneOf: z.array(z.unknown()).optional(),
  allOf: z.array(z.unknown()).optional(),
  $ref: z.string().optional(),
  minimum: z.number().optional(),
  minItems: z.number().optional(),
  minLength: z.number().optional(),
  maxLength: z.number().optional(),
  format: z.string().optional(),
});
type Schema = z.infer<typeof keywords>;

/** Example strings for the `format` keyword. */
const formats: Readonly<Record<string, string>> = {
  date: '2026-01-31',
  'date-time': '2026-01-31T12:00:00Z',
  time: '12:00:00Z',
  email: 'harbour@example.com',
  uri: 'https://example.com/harbour',
  uuid: '00000000-0000-4000-8000-000000000000',
};
/** Maximum depth, at which schemas that contain themselves end. */
const depthMax = 6;

/** Generates a value for a schema. Its strings are `text`, unless the schema requires another format. */
export function generateValue(schema: unknown, text: string): unknown {
  return generate(keywords.parse(schema ?? {}), { root: schema, text, depth: 0 });
}

interface Context {
  root: unknown;
  text: string;
  depth: number;
}

function generate(schema: Schema, context: Context): unknown {
  if ('const' in schema) return schema['const'];
  if (schema.enum) return schema.enum[0];
  const inner = findReplacement(schema, context);
  if (inner) return generate(inner, { ...context, depth: context.depth + 1 });
  const type = [schema.type].flat().find((name) => name !== 'null');
  if (type === 'object' || schema.properties) return generateObject(schema, context);
  if (type === 'array') return generateList(schema, context);
  if (type === 'boolean') return true;
  if (type === 'integer' || type === 'number') return schema.minimum ?? 1;
  if (type === 'string') return generateText(schema, context.text);
  return type === undefined && schema.type !== undefined ? null : context.text;
}

/** Returns the schema that replaces this one: the target of its `$ref`, or its first alternative. */
function findReplacement({ $ref, anyOf, oneOf, allOf }: Schema, { root }: Context): Schema | null {
  if ($ref !== undefined) return keywords.parse(resolveReference(root, $ref) ?? {});
  const [first] = (anyOf ?? oneOf ?? allOf ?? []).map((schema) => keywords.parse(schema));
  return first ?? null;
}

function resolveReference(root: unknown, reference: string): unknown {
  return reference
    .split('/')
    .slice(1)
    .reduce<unknown>(
      (at, name) => (typeof at === 'object' && at !== null ? Reflect.get(at, name) : undefined),
      root,
    );
}

function generateObject({ properties = {} }: Schema, context: Context): Record<string, unknown> {
  if (context.depth > depthMax) return {};
  const inside = { ...context, depth: context.depth + 1 };
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [
      name,
      generate(keywords.parse(schema), inside),
    ]),
  );
}

function generateList({ items, minItems = 1 }: Schema, context: Context): unknown[] {
  if (context.depth > depthMax) return [];
  const item = keywords.parse(items ?? {});
  const inside = { ...context, depth: context.depth + 1 };
  return Array.from({ length: Math.max(1, minItems) }, () => generate(item, inside));
}

function generateText(
  { format = '', minLength = 0, maxLength = Infinity }: Schema,
  text: string,
): string {
  const known = formats[format] ?? text;
  return known.padEnd(minLength, '.').slice(0, maxLength);
}
