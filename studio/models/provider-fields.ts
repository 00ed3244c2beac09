/** Maps request fields to the fields of a provider. */
import type { Json, JsonObject } from '../../domain/json.ts';
import { gatewayFields, isSize } from './model-parameters.ts';

/** Request fields, with or without the model's defaults. */
export type Fields = Readonly<Record<string, Json | undefined>>;

/** Rules that map request fields to a provider's fields. All keys are names of request fields. */
export interface FieldMap {
  /** Provider's field names. A request field without an entry keeps its name in snake_case. */
  rename?: Readonly<Record<string, string>>;
  /** Provider's values, keyed by request field and request value. */
  values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Request values that are not sent. A field with one of these values is omitted. */
  omitValues?: Readonly<Record<string, readonly string[]>>;
  /** Fields of the spec that are not sent, as the provider does not support them, e.g. `seed`. */
  omitFields?: readonly string[];
  /** Suffixes of numbers that are sent as text: with the suffix `s`, 8 is sent as `'8s'`. */
  asText?: Readonly<Record<string, string>>;
  /** Whether `{width, height}` is sent as text, e.g. `'1536x1024'`. */
  sizeAsText?: true;
  /** Constant fields that are sent with every request. */
  constantFields?: Readonly<Record<string, string | number | boolean>>;
}

/**
 * Builds the provider's input: the request fields with the provider's names and values. Omits
 * undefined fields.
 */
export function buildProviderInput(map: FieldMap, fields: Fields): JsonObject {
  const input: JsonObject = { ...map.constantFields };
  for (const [field, value] of Object.entries(fields)) {
    if (value === undefined || gatewayFields.has(field) || map.omitFields?.includes(field))
      continue;
    if (typeof value === 'string' && map.omitValues?.[field]?.includes(value)) continue;
    input[map.rename?.[field] ?? toSnakeCase(field)] = convertValue(map, field, value);
  }
  return input;
}

function toSnakeCase(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function convertValue(map: FieldMap, field: string, value: Json): Json {
  const suffix = map.asText?.[field];
  if (suffix !== undefined && typeof value === 'number') return `${value}${suffix}`;
  if (typeof value === 'string') return map.values?.[field]?.[value] ?? value;
  return map.sizeAsText && isSize(value) ? `${value.width}x${value.height}` : value;
}
