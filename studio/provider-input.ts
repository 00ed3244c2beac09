/** A request in a provider's words: the maps of the catalog are data, this is their only reader. */
import type { FieldMap } from '../catalog/field-map.ts';
import type { Json, JsonObject } from '../domain/json.ts';

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
    input[map.rename?.[field] ?? field] = providerValue(map, field, value);
  }
  return input;
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
