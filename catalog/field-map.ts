/** How our request fields are said in a provider's words: the maps are data, `providerInput` is their only reader. */
import type { Json, JsonObject } from '../domain/json.ts';

type Words = readonly string[];

/** Maps over request fields; each entry is by our field's name. */
export interface FieldMap {
  /** Our field → the provider's field; one that is not named here is called the same, in snake_case. */
  rename?: Readonly<Record<string, string>>;
  /** Our value → the provider's value. */
  values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Values that are said by leaving the field out. */
  omit?: Readonly<Record<string, Words>>;
  /** Fields that the spec allows and this upstream does not know: `seed`. */
  drop?: Words;
  /** Numbers that the provider takes as text, with what stands behind the digits: `'8s'`. */
  asText?: Readonly<Record<string, string>>;
  /** `{width, height}` is said as `'1536x1024'`. */
  sizeAsText?: true;
  /** Sent with every request, in the provider's own words. */
  fixed?: Readonly<Record<string, string | number | boolean>>;
}

/** Fields that steer the gateway, not the upstream. */
const ownFields = new Set([
  'model',
  'service',
  'operation',
  'async',
  'webhookUrl',
  'persistToStorage',
]);

/** Renames and translates fields; what is undefined is left out. */
export function providerInput(
  map: FieldMap,
  fields: Readonly<Record<string, Json | undefined>>,
): JsonObject {
  const input: JsonObject = { ...map.fixed };
  for (const [field, value] of Object.entries(fields)) {
    if (value === undefined || ownFields.has(field) || map.drop?.includes(field)) continue;
    if (typeof value === 'string' && map.omit?.[field]?.includes(value)) continue;
    input[map.rename?.[field] ?? inSnakeCase(field)] = providerValue(map, field, value);
  }
  return input;
}

function inSnakeCase(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function providerValue(map: FieldMap, field: string, value: Json): Json {
  const suffix = map.asText?.[field];
  if (suffix !== undefined && typeof value === 'number') return `${value}${suffix}`;
  if (typeof value === 'string') return map.values?.[field]?.[value] ?? value;
  if (!map.sizeAsText || typeof value !== 'object' || value === null || Array.isArray(value)) {
    return value;
  }
  const { width, height } = value;
  const isSize = typeof width === 'number' && typeof height === 'number';
  return isSize ? `${width}x${height}` : value;
}
