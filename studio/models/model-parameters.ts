/**
 * Rules for the request fields that a model supports: their allowed values, limits and defaults.
 * Requests are checked against these rules before credits are reserved, and GET /studio/models
 * publishes the same rules.
 */
import { asText, type Json, type JsonObject } from '../../domain/json.ts';
import {
  countCharacters,
  formatAllowedValues,
  formatReceived,
} from '../../domain/field-messages.ts';
import {
  fieldError,
  GatewayError,
  invalidFieldsError,
  type ErrorDetail,
} from '../../domain/errors.ts';

/** Request fields, with or without the model's defaults. */
export type Fields = Readonly<Record<string, Json | undefined>>;

/**
 * Most pixels of a delivered picture or frame whose size the request does not determine, by the
 * `resolution` of the request if the model has one. Steps that process the result are priced by it.
 */
export type PixelsMax = number | Readonly<Record<string, number>>;

/** Returns the most pixels that a model delivers at a resolution. */
export function findPixelsMax(max: PixelsMax, resolution: Json | undefined): number {
  if (typeof max === 'number') return max;
  return max[asText(resolution)] ?? Math.max(...Object.values(max));
}

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

/** Rule for the values of one request field; all limits are inclusive. */
interface ParameterRule {
  /** Allowed values. */
  oneOf?: readonly (string | number | boolean)[];
  /** Limits of a number. */
  min?: number;
  max?: number;
  /** Maximum length of a list; the minimum is one. */
  itemsMax?: number;
  charactersMax?: number;
  /** Limits of a custom size `{width, height}`. */
  size?: SizeRule;
  /** Value used if the request does not contain the field. */
  default?: string | number | boolean;
}

/** Limits of a size in pixels. */
export interface SizeRule {
  multipleOf: number;
  edgeMax: number;
  pixelsMin: number;
  pixelsMax: number;
  /** Maximum ratio of the longer edge to the shorter one. */
  ratioMax: number;
}

/** Rules by request field. A field without a rule is rejected with UNSUPPORTED_PARAMETER. */
export type ParameterRules = Readonly<Record<string, ParameterRule>>;

/** Properties that every Studio model and tool has. */
export interface CatalogRow {
  /** Public id, as in the spec. */
  id: string;
  displayName: string;
  /** Name of the provider's model that serves the public id; callers see it. */
  servedBy: string;
  /**
   * Typical duration of a call in seconds. The first status check is made after three times this
   * duration.
   */
  typicalSeconds: number;
}

/**
 * Returns the row with the given public id. `field` is the request field named in the error.
 * @throws GatewayError UNKNOWN_MODEL with the known ids
 */
export function findModel<Row extends { id: string }>(
  rows: readonly Row[],
  id: string,
  field = 'model',
): Row {
  const model = rows.find((row) => row.id === id);
  if (model) return model;
  const knownIds = rows.map((row) => row.id);
  throw fieldError('UNKNOWN_MODEL', field, formatAllowedValues(knownIds, id));
}

/** Rule for `seed`: 0–2147483647 (spec §8). */
export const seedRule: ParameterRule = { min: 0, max: 2_147_483_647 };

/** Returns the default values of the fields that a request does not contain. */
export function getMissingDefaults(
  rules: ParameterRules,
  body: Readonly<Record<string, unknown>>,
): Record<string, string | number | boolean> {
  const defaults: Record<string, string | number | boolean> = {};
  for (const [field, rule] of Object.entries(rules)) {
    if (rule.default !== undefined && body[field] === undefined) defaults[field] = rule.default;
  }
  return defaults;
}

/** Fields that control the gateway and are not sent to the provider. */
const gatewayFields = new Set([
  'model',
  'service',
  'operation',
  'async',
  'persistToStorage',
  'maskArea',
]);
/** Fields that are allowed without a rule of the model; a rule may still limit their values. */
const commonFields = new Set([...gatewayFields, 'prompt', 'imageUrl', 'imageUrls', 'videoUrl']);

interface CheckedModel {
  /** Public id of the model. */
  id: string;
  parameters: ParameterRules;
  /** Fields of `commonFields` that are rejected unless this model has a rule for them. */
  requireRuleFor?: readonly string[];
}

/**
 * Throws if the model does not support a request field or its value.
 * @throws GatewayError UNSUPPORTED_PARAMETER or INVALID_REQUEST; the details name each field that
 * is not allowed
 */
export function throwIfUnsupported(
  { id, parameters, requireRuleFor = [] }: CheckedModel,
  body: Readonly<Record<string, unknown>>,
): void {
  const sentFields = Object.keys(body).filter((field) => body[field] !== undefined);
  const unsupportedFields = sentFields
    .filter((field) => requireRuleFor.includes(field) || !commonFields.has(field))
    .filter((field) => parameters[field] === undefined);
  if (unsupportedFields.length > 0) {
    const supported = Object.keys(parameters).join(', ') || 'none';
    const message = `${id} does not support ${unsupportedFields.join(', ')}`;
    throw new GatewayError('UNSUPPORTED_PARAMETER', message, {
      details: unsupportedFields.map((path) => ({
        path,
        message: `not supported by ${id}; supported: ${supported}`,
      })),
    });
  }
  const details: ErrorDetail[] = sentFields.flatMap((path) => {
    const rule = parameters[path] ?? {};
    const requirement = findViolatedRequirement(rule, body[path]);
    const value = formatReceived(body[path], rule.oneOf?.map(String));
    return requirement === undefined ? [] : [{ path, message: `${requirement} for ${id}${value}` }];
  });
  if (details.length > 0) throw invalidFieldsError('INVALID_REQUEST', details);
}

/** Returns the violated requirement for the error message; undefined if the value is allowed. */
function findViolatedRequirement(rule: ParameterRule, value: unknown): string | undefined {
  if (rule.oneOf && !rule.oneOf.some((allowed) => allowed === value)) {
    return `must be one of ${rule.oneOf.join(', ')}`;
  }
  if (typeof value === 'number') {
    const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = rule;
    return value < min || value > max ? `must be ${min}–${max}` : undefined;
  }
  if (typeof value === 'string') {
    const { charactersMax = Number.POSITIVE_INFINITY } = rule;
    return countCharacters(value) > charactersMax
      ? `must have at most ${charactersMax} characters`
      : undefined;
  }
  if (Array.isArray(value)) {
    const { itemsMax = Number.POSITIVE_INFINITY } = rule;
    return value.length > itemsMax ? `must have 1–${itemsMax} items` : undefined;
  }
  return rule.size && isSize(value) ? findViolatedSizeRequirement(rule.size, value) : undefined;
}

/** Returns whether a value is a size `{width, height}`. */
function isSize(value: unknown): value is { width: number; height: number } {
  return typeof value === 'object' && value !== null && 'width' in value && 'height' in value;
}

function findViolatedSizeRequirement(
  rule: SizeRule,
  { width, height }: { width: number; height: number },
) {
  const [shorterEdge, longerEdge] = width < height ? [width, height] : [height, width];
  const pixels = width * height;
  if (shorterEdge % rule.multipleOf !== 0 || longerEdge % rule.multipleOf !== 0) {
    return `must have edges that are multiples of ${rule.multipleOf}`;
  }
  if (longerEdge > rule.edgeMax) return `must have edges of at most ${rule.edgeMax} pixels`;
  if (pixels < rule.pixelsMin || pixels > rule.pixelsMax) {
    return `must have ${rule.pixelsMin}–${rule.pixelsMax} pixels in total`;
  }
  return longerEdge > shorterEdge * rule.ratioMax
    ? `must have an aspect ratio of at most ${rule.ratioMax}:1`
    : undefined;
}

/**
 * Throws if a request contains both of two fields.
 * @throws GatewayError CONFLICTING_FIELDS
 */
export function throwIfBoth(
  body: Readonly<Record<string, unknown>>,
  fields: readonly [string, string],
  reason: string,
): void {
  if (fields.some((field) => body[field] === undefined)) return;
  throw new GatewayError('CONFLICTING_FIELDS', `${fields.join(' and ')}: ${reason}`, {
    details: fields.map((path) => ({ path, message: reason })),
  });
}
