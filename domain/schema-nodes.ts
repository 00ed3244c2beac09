/** Finds the JSON schemas of values inside a request, and describes the values that they allow. */
import type { z } from 'zod';

/** JSON schema of a value inside a request. */
export type SchemaNode = z.core.JSONSchema.JSONSchema;

/** Returns the schemas of the value at a path: several if the value may have several types. */
export function findNodes(root: SchemaNode, path: readonly PropertyKey[]): SchemaNode[] {
  let nodes = listAlternatives(root, root);
  for (const key of path) nodes = nodes.flatMap((node) => listChildren(node, { key, root }));
  return nodes;
}

/** Returns the alternatives of a schema without `null`, which means the same as a missing field. */
function listAlternatives(
  node: z.core.JSONSchema._JSONSchema | undefined,
  root: SchemaNode,
): SchemaNode[] {
  if (typeof node !== 'object') return [];
  const { $ref, anyOf, oneOf, type } = node;
  if ($ref !== undefined) return listAlternatives(root.$defs?.[$ref.split('/').at(-1) ?? ''], root);
  const alternatives = anyOf ?? oneOf;
  if (alternatives)
    return alternatives.flatMap((alternative) => listAlternatives(alternative, root));
  return type === 'null' ? [] : [node];
}

function listChildren(
  node: SchemaNode,
  { key, root }: { key: PropertyKey; root: SchemaNode },
): SchemaNode[] {
  const { properties = {}, items, additionalProperties } = node;
  if (typeof key === 'number')
    return [items].flat().flatMap((alternative) => listAlternatives(alternative, root));
  if (Object.hasOwn(properties, key)) return listAlternatives(properties[String(key)], root);
  return listAlternatives(additionalProperties, root);
}

/** Describes the values that a schema allows: `an integer of 1–100`, `an array of 1–10 strings`. */
export function describeNode(node: SchemaNode): string {
  if ('const' in node) return JSON.stringify(node.const);
  if (node.enum) return `one of ${node.enum.join(', ')}`;
  switch (node.type) {
    case 'string':
      return describeString(node);
    case 'integer':
    case 'number': {
      const kind = node.type === 'integer' ? 'an integer' : 'a number';
      return kind + describeRange(ignoreSafeLimit(node.minimum), ignoreSafeLimit(node.maximum));
    }
    case 'boolean':
      return 'true or false';
    case 'array': {
      const { type } =
        typeof node.items === 'object' && !Array.isArray(node.items) ? node.items : {};
      const items = typeof type === 'string' && type !== 'array' ? `${type}s` : 'items';
      const range = describeRange(node.minItems, node.maxItems);
      return range === '' ? `an array of ${items}` : `an array${range} ${items}`;
    }
    case 'object': {
      const names = Object.keys(node.properties ?? {});
      return names.length > 0 && names.length <= 8
        ? `an object with ${names.join(', ')}`
        : 'an object';
    }
    case 'null':
    case undefined:
    default:
      return 'a valid value';
  }
}

const formatTexts: Readonly<Record<string, string>> = {
  'date-time': 'an ISO 8601 date and time, such as 2026-01-31T12:00:00Z',
  uri: 'a URL',
};

function describeString({ format = '', minLength, maxLength }: SchemaNode): string {
  const range = describeRange(minLength, maxLength);
  return formatTexts[format] ?? `a string${range}${range && ' characters'}`;
}

/** Returns a limit, or undefined for the safe-integer limit that zod adds to each integer. */
function ignoreSafeLimit(limit: number | undefined): number | undefined {
  return limit !== undefined && Math.abs(limit) < Number.MAX_SAFE_INTEGER ? limit : undefined;
}

function describeRange(min: number | undefined, max: number | undefined): string {
  if (min !== undefined && max !== undefined) return ` of ${min === max ? min : `${min}–${max}`}`;
  if (max !== undefined) return ` of at most ${max}`;
  return min === undefined ? '' : ` of at least ${min}`;
}
