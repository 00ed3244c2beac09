/**
 * What a model takes: its fields with their limits, as data. Requests are checked by it, providers are
 * spoken to by it, and GET /studio/models publishes it, so the three cannot differ.
 */

/** The values that a model takes for one request field; all bounds are inclusive. */
export interface ParameterRule {
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
