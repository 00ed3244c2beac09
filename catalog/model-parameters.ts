/**
 * What a model takes: its fields with their limits, as data. Requests are checked by it (before anything is reserved,
 * design §7), and GET /studio/models publishes it, so the two cannot differ. And how a provider says these fields:
 * the maps are data too, `providerInput` is their only reader.
 */
import { charactersOf, notOneOf, received } from '../domain/request-words.ts';
import { fieldError, GatewayError, refusedFields, type ErrorDetail } from '../domain/errors.ts';
import type { Json, JsonObject } from '../domain/json.ts';

/** The values that a model takes for one request field; all bounds are inclusive. */
interface ParameterRule {
  /** The only values. */
  oneOf?: readonly (string | number | boolean)[];
  /** Bounds of a number. */
  min?: number;
  max?: number;
  /** Length of a list, at least one. */
  itemsMax?: number;
  charactersMax?: number;
  /** Bounds of a free `{width, height}`. */
  size?: SizeRule;
  /** Used when the caller leaves the field out. */
  default?: string | number | boolean;
}

/** Bounds of a size in pixels. */
export interface SizeRule {
  multipleOf: number;
  edgeMax: number;
  pixelsMin: number;
  pixelsMax: number;
  /** Longer edge divided by the shorter one. */
  ratioMax: number;
}

/** Field → rule. A field that is absent here is refused with UNSUPPORTED_PARAMETER. */
export type ParameterRules = Readonly<Record<string, ParameterRule>>;

/** What every model and tool of Studio says of itself. */
export interface CatalogRow {
  /** As in the spec: callers name it. */
  id: string;
  displayName: string;
  /** The upstream model behind the public id, told to callers. */
  servedBy: string;
  /** Seconds that the upstream takes as a rule; the first status check comes well after. */
  typicalSeconds: number;
}

/**
 * Finds a row by its public id.
 * @throws GatewayError UNKNOWN_MODEL listing what exists.
 */
export function findModel<Row extends { id: string }>(
  rows: readonly Row[],
  id: string,
  field = 'model',
): Row {
  const found = rows.find((row) => row.id === id);
  if (found) return found;
  const known = rows.map((row) => row.id);
  throw fieldError('UNKNOWN_MODEL', field, notOneOf(known, id));
}

/** 0–2147483647 (spec §8). */
export const seedRule: ParameterRule = { min: 0, max: 2_147_483_647 };

/** The defaults of the fields that a request leaves out. */
export function defaultsFor(
  rules: ParameterRules,
  body: Readonly<Record<string, unknown>>,
): Record<string, string | number | boolean> {
  const defaults: Record<string, string | number | boolean> = {};
  for (const [field, rule] of Object.entries(rules)) {
    if (rule.default !== undefined && body[field] === undefined) defaults[field] = rule.default;
  }
  return defaults;
}

/** Fields that steer the gateway, not the upstream. */
const gatewayFields = new Set(['model', 'service', 'operation', 'async', 'persistToStorage']);
/** Fields of every request that no model decides about; a model may still bound them. */
const common = new Set([...gatewayFields, 'prompt', 'imageUrl', 'imageUrls', 'videoUrl']);

interface Checked {
  /** The id that the caller knows the model by. */
  id: string;
  parameters: ParameterRules;
  /** Fields of `common` that this kind of request leaves to the model after all. */
  modelled?: readonly string[];
}

/**
 * Refuses parameters of other models, and values that this model does not take.
 * @throws GatewayError UNSUPPORTED_PARAMETER or INVALID_REQUEST, naming each field.
 */
export function refuseUnsupported(
  { id, parameters, modelled = [] }: Checked,
  body: Readonly<Record<string, unknown>>,
): void {
  const given = Object.keys(body).filter((field) => body[field] !== undefined);
  const foreign = given
    .filter((field) => modelled.includes(field) || !common.has(field))
    .filter((field) => parameters[field] === undefined);
  if (foreign.length > 0) {
    const taken = Object.keys(parameters).join(', ') || 'no parameters';
    throw new GatewayError('UNSUPPORTED_PARAMETER', `${id} does not take ${foreign.join(', ')}`, {
      details: foreign.map((path) => ({
        path,
        message: `not supported by ${id}; supported: ${taken}`,
      })),
    });
  }
  const details: ErrorDetail[] = given.flatMap((path) => {
    const rule = parameters[path] ?? {};
    const wanted = breach(rule, body[path]);
    const sent = received(body[path], rule.oneOf?.map(String));
    return wanted === undefined ? [] : [{ path, message: `${id} takes ${wanted}${sent}` }];
  });
  if (details.length > 0) throw refusedFields('INVALID_REQUEST', details);
}

/** What would have been taken; undefined when the value is. */
function breach(rule: ParameterRule, value: unknown): string | undefined {
  if (rule.oneOf && !rule.oneOf.some((known) => known === value)) {
    return `one of ${rule.oneOf.join(', ')}`;
  }
  if (typeof value === 'number') {
    const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = rule;
    return value < min || value > max ? `${min}–${max}` : undefined;
  }
  if (typeof value === 'string') {
    const { charactersMax = Number.POSITIVE_INFINITY } = rule;
    return charactersOf(value) > charactersMax ? `at most ${charactersMax} characters` : undefined;
  }
  if (Array.isArray(value)) {
    const { itemsMax = Number.POSITIVE_INFINITY } = rule;
    return value.length > itemsMax ? `1–${itemsMax} of them` : undefined;
  }
  return rule.size && isSize(value) ? sizeBreach(rule.size, value) : undefined;
}

function isSize(value: unknown): value is { width: number; height: number } {
  return typeof value === 'object' && value !== null && 'width' in value && 'height' in value;
}

function sizeBreach(rule: SizeRule, { width, height }: { width: number; height: number }) {
  const [short, long] = width < height ? [width, height] : [height, width];
  const pixels = width * height;
  if (short % rule.multipleOf !== 0 || long % rule.multipleOf !== 0) {
    return `edges in multiples of ${rule.multipleOf}`;
  }
  if (long > rule.edgeMax) return `edges up to ${rule.edgeMax} pixels`;
  if (pixels < rule.pixelsMin || pixels > rule.pixelsMax) {
    return `${rule.pixelsMin}–${rule.pixelsMax} pixels in all`;
  }
  return long > short * rule.ratioMax ? `shapes up to ${rule.ratioMax}:1` : undefined;
}

/**
 * Refuses two fields of which only one can be meant.
 * @throws GatewayError CONFLICTING_FIELDS
 */
export function refuseTogether(
  body: Readonly<Record<string, unknown>>,
  fields: readonly [string, string],
  reason: string,
): void {
  if (fields.some((field) => body[field] === undefined)) return;
  throw new GatewayError('CONFLICTING_FIELDS', `${fields.join(' and ')}: ${reason}`, {
    details: fields.map((path) => ({ path, message: reason })),
  });
}

/** A request's fields, with or without the defaults of a model. */
export type Fields = Readonly<Record<string, Json | undefined>>;

/** Maps over request fields; each entry is by our field's name. */
export interface FieldMap {
  /** Our field → the provider's field; one that is not named here is called the same, in snake_case. */
  rename?: Readonly<Record<string, string>>;
  /** Our value → the provider's value. */
  values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Values that are said by leaving the field out. */
  omit?: Readonly<Record<string, readonly string[]>>;
  /** Fields that the spec allows and this upstream does not know: `seed`. */
  drop?: readonly string[];
  /** Numbers that the provider takes as text, with what stands behind the digits: `'8s'`. */
  asText?: Readonly<Record<string, string>>;
  /** `{width, height}` is said as `'1536x1024'`. */
  sizeAsText?: true;
  /** Sent with every request, in the provider's own words. */
  fixed?: Readonly<Record<string, string | number | boolean>>;
}

/** Renames and translates fields; what is undefined is left out. */
export function providerInput(map: FieldMap, fields: Fields): JsonObject {
  const input: JsonObject = { ...map.fixed };
  for (const [field, value] of Object.entries(fields)) {
    if (value === undefined || gatewayFields.has(field) || map.drop?.includes(field)) continue;
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
  return map.sizeAsText && isSize(value) ? `${value.width}x${value.height}` : value;
}
