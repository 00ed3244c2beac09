/** Converts the cells of a table to request fields, by the JSON Schema of each field. */

/** JSON Schema of a request field, with the keywords that decide the type of a cell. */
interface ValueSchema {
  type?: string;
  const?: unknown;
  enum?: readonly unknown[];
  anyOf?: readonly ValueSchema[];
  oneOf?: readonly ValueSchema[];
}

/** JSON Schema of a request. */
export interface RequestSchema {
  properties?: Record<string, ValueSchema>;
}

const numberPattern = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i;
const logicals = new Map([
  ['true', true],
  ['false', false],
]);

/**
 * Converts a cell to the value of a field. A cell stays text if the field accepts text, if it is not
 * a value of the field, or if the schema is unknown: the API then rejects it by name.
 */
export function toFieldValue(cell: string, schema: ValueSchema | undefined): unknown {
  const choices = listChoices(schema);
  const constant = choices
    .flatMap((choice) => choice.enum ?? ('const' in choice ? [choice.const] : []))
    .find((value) => String(value) === cell);
  if (constant !== undefined) return constant;
  const types = choices.filter((choice) => !choice.enum && !('const' in choice)).map(toType);
  const list = parseCollection(cell);
  if (types.includes(Array.isArray(list) ? 'array' : 'object') && list !== undefined) return list;
  if (types.includes('string')) return cell;
  const text = cell.trim();
  if (types.includes('number')) return parseNumber(text) ?? cell;
  return types.includes('boolean') ? (logicals.get(text.toLowerCase()) ?? cell) : cell;
}

const listChoices = (schema: ValueSchema | undefined): ValueSchema[] =>
  schema
    ? [schema, ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap(listChoices)]
    : [];

const toType = ({ type }: ValueSchema): string | undefined =>
  type === 'integer' ? 'number' : type;

/** Parses a number. Returns undefined for a whole number that JavaScript would round. */
function parseNumber(text: string): number | undefined {
  if (!numberPattern.test(text)) return undefined;
  const number = Number(text);
  const isRounded = /^-?\d+$/.test(text) && !Number.isSafeInteger(number);
  return Number.isFinite(number) && !isRounded ? number : undefined;
}

/** Parses a JSON array or object. Returns undefined for other texts, such as `[soft light]`. */
function parseCollection(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
