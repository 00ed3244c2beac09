/**
 * Converts JSON Schemas to the part of JSON Schema that Anthropic accepts in strict tools and output
 * formats. A keyword that Anthropic rejects moves to the description, where the model reads it.
 * Source: `transformJSONSchema` of @anthropic-ai/sdk.
 */
import { asText, isRecord, type Json, type JsonObject } from '../../domain/json.ts';

/** String formats that Anthropic accepts. */
const acceptedFormats: ReadonlySet<unknown> = new Set([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'uri',
  'ipv4',
  'ipv6',
  'uuid',
]);

/** Keywords that hold named schemas, to which references point. */
const definitionKeywords = ['$defs', 'definitions'] as const;

/** Converts a schema, whose references are not recursive. */
export function toStrictSchema(schema: JsonObject): JsonObject {
  const { $schema: _dialect, ...left } = schema;
  const strict: JsonObject = {};
  const take = (keyword: string): Json | undefined => {
    const value = left[keyword];
    delete left[keyword];
    return value;
  };
  const keep = (keyword: string, isAccepted: boolean, convert = (value: Json): Json => value) => {
    const value = left[keyword];
    if (value === undefined || !isAccepted) return;
    strict[keyword] = convert(value);
    delete left[keyword];
  };
  for (const keyword of definitionKeywords) keep(keyword, isRecord(left[keyword]), convertSchemas);
  if (left['$ref'] !== undefined) return { ...strict, $ref: left['$ref'] };
  keep('enum', isListOfLiterals(left['enum']));
  keep('const', isLiteral(left['const']));
  const hasLiterals = 'enum' in strict || 'const' in strict;
  const type = take('type') ?? inferType(schema);
  const variants = take('anyOf') ?? take('oneOf');
  if (Array.isArray(variants)) strict['anyOf'] = variants.map(convertPart);
  else if (Array.isArray(left['allOf'])) keep('allOf', true, convertParts);
  else if (!hasLiterals && type !== undefined) strict['type'] = type;
  keep('description', true);
  keep('title', true);
  if (hasLiterals) return describeRest(strict, left);
  const types = [type].flat();
  if (types.includes('object')) {
    strict['properties'] = convertSchemas(take('properties') ?? {});
    delete left['additionalProperties'];
    strict['additionalProperties'] = false;
    keep('required', true);
  }
  keep('format', types.includes('string') && acceptedFormats.has(left['format']));
  keep('items', types.includes('array') && isRecord(left['items']), convertPart);
  keep('minItems', types.includes('array') && (left['minItems'] === 0 || left['minItems'] === 1));
  return describeRest(strict, left);
}

/** Adds the keywords that are left to the description. */
function describeRest(strict: JsonObject, left: JsonObject): JsonObject {
  const rest = Object.entries(left).map(
    ([keyword, value]) => `${keyword}: ${JSON.stringify(value)}`,
  );
  if (rest.length === 0) return strict;
  const description = asText(strict['description']);
  const separator = description === '' ? '' : '\n\n';
  return { ...strict, description: `${description}${separator}{${rest.join(', ')}}` };
}

function inferType({ properties, items }: JsonObject): Json | undefined {
  if (properties !== undefined) return 'object';
  return items === undefined ? undefined : 'array';
}

const isLiteral = (value: Json | undefined): boolean =>
  value !== undefined && (value === null || typeof value !== 'object' || JSON.isRawJSON(value));

const isListOfLiterals = (value: Json | undefined): boolean =>
  Array.isArray(value) && value.length > 0 && value.every(isLiteral);

const isSchema = (value: Json): value is JsonObject => isRecord(value);

const convertPart = (part: Json): Json => (isSchema(part) ? toStrictSchema(part) : part);

const convertParts = (parts: Json): Json => (Array.isArray(parts) ? parts.map(convertPart) : parts);

/** Converts the schemas of an object that has one for each name. */
function convertSchemas(schemas: Json): Json {
  if (!isSchema(schemas)) return schemas;
  const entries = Object.entries(schemas).map(([name, part]) => [name, convertPart(part)] as const);
  return Object.fromEntries(entries);
}

/** Returns whether a schema refers to itself, directly or through its definitions. */
export function isRecursive(schema: JsonObject): boolean {
  let definitions = definitionKeywords.flatMap((keyword) => {
    const schemas = schema[keyword] ?? {};
    return Object.entries(isSchema(schemas) ? schemas : {}).map(([name, part]) => ({
      name: `#/${keyword}/${name}`,
      references: listReferences(part),
    }));
  });
  // Definitions that refer to none of the others are removed until none is left, or only cycles.
  for (;;) {
    const names = new Set(definitions.map(({ name }) => name));
    const left = definitions.filter(({ references }) => references.some((name) => names.has(name)));
    if (left.length === definitions.length) break;
    definitions = left;
  }
  return definitions.length > 0 || listReferences(schema).includes('#');
}

function listReferences(part: Json): string[] {
  if (typeof part !== 'object' || part === null) return [];
  const own = isSchema(part) && typeof part['$ref'] === 'string' ? [part['$ref']] : [];
  return [...own, ...Object.values(part).flatMap(listReferences)];
}
