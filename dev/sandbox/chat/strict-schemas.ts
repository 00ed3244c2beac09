/** Schemas that Anthropic rejects in strict tools and output formats. Based on its documentation of structured outputs. */

type Fields = Record<string, unknown>;
const isRecord = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Keywords that each type of a schema accepts besides those of all types. */
const keywordsByType: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'minItems'],
  string: ['format'],
};
const keywordsOfAll = [
  'type',
  'enum',
  'const',
  'anyOf',
  'allOf',
  '$ref',
  '$defs',
  'description',
  'title',
  'default',
];
const formats = /^(date-time|time|date|duration|email|hostname|uri|ipv4|ipv6|uuid)$/;

/** Returns the error message for the first part of a schema that is not supported, otherwise null. */
export function findStrictSchemaError(schema: unknown): string | null {
  const fields = isRecord(schema) ? schema : {};
  const { type, properties, items, $defs: definitions, anyOf, allOf } = fields;
  const types = [type].flat().filter((name) => typeof name === 'string');
  const known = [...keywordsOfAll, ...types.flatMap((name) => keywordsByType[name] ?? [])];
  const unknown = Object.keys(fields).find((keyword) => !known.includes(keyword));
  const where = types.length > 0 ? ` for '${types.join()}' type` : '';
  if (unknown !== undefined) return `schema: property '${unknown}' is not supported${where}`;
  if (types.includes('object') && fields['additionalProperties'] !== false)
    return "schema: For 'object' type, 'additionalProperties' must be explicitly set to false";
  const { minItems = 0, format = 'date' } = fields;
  if (minItems !== 0 && minItems !== 1)
    return "schema: For 'array' type, 'minItems' values other than 0 or 1 are not supported";
  if (typeof format !== 'string' || !formats.test(format))
    return `schema: format ${JSON.stringify(format)} is not supported`;
  const parts = [
    ...(isRecord(properties) ? Object.values(properties) : []),
    ...(isRecord(definitions) ? Object.values(definitions) : []),
    ...[anyOf, allOf, items].flat().filter(isRecord),
  ];
  return parts.map(findStrictSchemaError).find((error) => error !== null) ?? null;
}
