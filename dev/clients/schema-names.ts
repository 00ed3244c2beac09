/** Names the unnamed object schemas of an OpenAPI document. Otherwise, code generators would number them. */
import { isDeepStrictEqual } from 'node:util';
import { assert } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';

type Schema = Record<string, unknown>;
/** Named schemas of a document (`components.schemas`). */
export type NamedSchemas = Record<string, Schema>;

/** Words for the two values of a boolean discriminator, such as `success`. */
const booleanWords = { true: 'Successful', false: 'Failed' } as const;

/**
 * Moves every unnamed object schema to `schemas`, and replaces it by a reference. Its name consists of its discriminator and its
 * field: `TextContent`. The names of enclosing schemas precede it if it has no discriminator, or if another schema has this name:
 * `FunctionToolCallFunction`. Equal schemas of the same field share one name.
 */
export function nameInlineSchemas(schemas: NamedSchemas): void {
  const namer = new SchemaNamer(schemas);
  for (const [name, schema] of Object.entries(schemas)) namer.replaceChildren(schema, [name]);
}

class SchemaNamer {
  readonly #schemas: NamedSchemas;
  /** Names that were given to schemas, by the short name of the schema. */
  readonly #givenNames = new Map<string, string[]>();

  constructor(schemas: NamedSchemas) {
    this.#schemas = schemas;
  }

  /** Replaces the object schemas inside a schema. `path` contains the short names of the enclosing schemas. */
  replaceChildren(schema: Schema, path: readonly string[]): void {
    const { properties } = schema;
    if (isRecord(properties)) {
      for (const [field, value] of Object.entries(properties)) {
        properties[field] = this.#replace(value, field, path);
      }
    }
  }

  /** Returns a reference to an object schema, and any other schema with references to the object schemas inside it. */
  #replace(value: unknown, field: string, path: readonly string[]): unknown {
    if (!isRecord(value)) return value;
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
      const members = value[keyword];
      if (!Array.isArray(members)) continue;
      value[keyword] = members.map((member) => this.#replace(member, field, path));
    }
    for (const keyword of ['items', 'additionalProperties']) {
      if (keyword in value) value[keyword] = this.#replace(value[keyword], toItemName(field), path);
    }
    if (!isRecord(value['properties'])) return value;
    const discriminator = readDiscriminator(value['properties']);
    const shortName = discriminator + toPascalCase(field);
    this.replaceChildren(value, [...path, shortName]);
    const longerNames = path
      .map((_, index) => joinNames([...path.slice(index), shortName]))
      .toReversed();
    const candidates =
      discriminator === ''
        ? longerNames
        : [shortName, joinNames([path[0] ?? '', shortName]), ...longerNames];
    const name = this.#findName(value, shortName, candidates);
    this.#schemas[name] = value;
    return { $ref: `#/components/schemas/${name}` };
  }

  /** Returns the name of an equal schema with this short name, or the first candidate that no other schema has. */
  #findName(schema: Schema, shortName: string, candidates: readonly string[]): string {
    const givenNames = this.#givenNames.get(shortName) ?? [];
    const equalName = givenNames.find((name) => isDeepStrictEqual(this.#schemas[name], schema));
    if (equalName !== undefined) return equalName;
    const name = candidates.find(
      (candidate) => !(candidate in this.#schemas) && !/^(Item|Data)[A-Z]/.test(candidate),
    );
    assert(name !== undefined, `another schema has the name ${candidates.join(' or ')}`);
    this.#givenNames.set(shortName, [...givenNames, name]);
    return name;
  }
}

/** Returns the constant values of the fields `role`, `type` and `success` as one word; empty if there are none. */
function readDiscriminator({ role, type, success }: Schema): string {
  return [role, type, success].flatMap(readConstants).map(toPascalCase).join('');
}

/** Returns the constant values of a field: one, or two that are joined by `or`. */
function readConstants(field: unknown): string[] {
  if (!isRecord(field)) return [];
  const { const: value, enum: values } = field;
  if (typeof value === 'boolean') return [booleanWords[`${value}`]];
  if (typeof value === 'string') return [value];
  return Array.isArray(values) && values.length === 2 ? [values.join(' or ')] : [];
}

/** Joins names. Omits a name that the next one already begins with, so that nothing is repeated. */
function joinNames(names: readonly string[]): string {
  const joined = names.filter((name, index) => !names[index + 1]?.startsWith(name)).join('');
  return joined.replace(/([A-Z][a-z]+)\1$/, '$1Body');
}

/** Returns the name of one item of a list: `message` for `messages`. */
function toItemName(field: string): string {
  if (field === 'data') return 'item';
  return field.replace(/ies$/, 'y').replace(/(?<![su])s$/, '');
}

function toPascalCase(text: string): string {
  return text
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join('');
}
