/** Makes a value that a JSON Schema accepts, as a model does for structured outputs and tool arguments. */
import { z } from 'zod';

/** The keywords that are followed; every other one is ignored. */
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

/** Texts of the formats that a schema may name. */
const formats: Readonly<Record<string, string>> = {
  date: '2026-01-31',
  'date-time': '2026-01-31T12:00:00Z',
  time: '12:00:00Z',
  email: 'harbour@example.com',
  uri: 'https://example.com/harbour',
  uuid: '00000000-0000-4000-8000-000000000000',
};
/** Depth at which a schema that contains itself ends. */
const depthMax = 6;

/** Makes a value of a schema. Every text of it is `text`. */
export function valueOf(schema: unknown, text: string): unknown {
  return make(keywords.parse(schema ?? {}), { root: schema, text, depth: 0 });
}

interface Place {
  root: unknown;
  text: string;
  depth: number;
}

function make(schema: Schema, place: Place): unknown {
  if ('const' in schema) return schema['const'];
  if (schema.enum) return schema.enum[0];
  const inner = innerOf(schema, place);
  if (inner) return make(inner, { ...place, depth: place.depth + 1 });
  const type = [schema.type].flat().find((each) => each !== 'null');
  if (type === 'object' || schema.properties) return objectOf(schema, place);
  if (type === 'array') return listOf(schema, place);
  if (type === 'boolean') return true;
  if (type === 'integer' || type === 'number') return schema.minimum ?? 1;
  if (type === 'string') return textOf(schema, place.text);
  return type === undefined && schema.type !== undefined ? null : place.text;
}

/** Returns the schema that stands for this one: the target of a reference, or the first alternative with a value. */
function innerOf({ $ref, anyOf, oneOf, allOf }: Schema, { root }: Place): Schema | null {
  if ($ref !== undefined) return keywords.parse(targetOf(root, $ref) ?? {});
  const [first] = (anyOf ?? oneOf ?? allOf ?? []).map((each) => keywords.parse(each));
  return first ?? null;
}

function targetOf(root: unknown, reference: string): unknown {
  return reference
    .split('/')
    .slice(1)
    .reduce<unknown>(
      (at, name) => (typeof at === 'object' && at !== null ? Reflect.get(at, name) : undefined),
      root,
    );
}

function objectOf({ properties = {} }: Schema, place: Place): Record<string, unknown> {
  if (place.depth > depthMax) return {};
  const inside = { ...place, depth: place.depth + 1 };
  return Object.fromEntries(
    Object.entries(properties).map(([name, each]) => [name, make(keywords.parse(each), inside)]),
  );
}

function listOf({ items, minItems = 1 }: Schema, place: Place): unknown[] {
  if (place.depth > depthMax) return [];
  const item = keywords.parse(items ?? {});
  const inside = { ...place, depth: place.depth + 1 };
  return Array.from({ length: Math.max(1, minItems) }, () => make(item, inside));
}

function textOf(
  { format = '', minLength = 0, maxLength = Infinity }: Schema,
  text: string,
): string {
  const known = formats[format] ?? text;
  return known.padEnd(minLength, '.').slice(0, maxLength);
}
