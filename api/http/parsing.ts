/**
 * Parses parts of requests with their schemas. Each error message names the field, the allowed
 * values (read from the schema) and the received value. If a schema defines its own message, that
 * message is used.
 */
import { z } from 'zod';
import { charactersOf, createNearest, notOneOf, received } from '../../domain/field-messages.ts';
import { refusedFields, type ErrorDetail } from '../../domain/errors.ts';

type Issue = z.core.$ZodIssue;
type Node = z.core.JSONSchema.JSONSchema;

/** Part of the request that contains the value. */
type Place = 'body' | 'query';

/** Value that was parsed, with its schema. */
interface Parsed {
  schema: z.ZodType;
  value: unknown;
  place: Place;
}

/**
 * Highest number of nested values for which all errors are reported; for a larger value, only the
 * first error is.
 */
const thoroughPartsMax = 1000;
/** Highest number of errors in a response. */
const detailsMax = 20;
/**
 * Highest number of allowed names in an error message, because some requests have very many fields.
 */
const namesMax = 24;
/** Highest number of characters of a path in an error. */
const pathMax = 200;
/** Highest length of a string whose characters are counted, in UTF-16 units. */
const countedMax = 100_000;

/**
 * Options that find all errors. The messages are empty unless a schema defines its own; `messageOf`
 * writes them.
 */
const allIssues: z.core.ParseContext<Issue> = { error: () => '' };
/** Options that stop at the first error, because a large value could have a million. */
const firstIssue: z.core.ParseContextInternal<Issue> = { ...allIssues, abortEarly: true };

/**
 * Parses a value with a schema.
 * @throws GatewayError INVALID_REQUEST naming each invalid field; if the value is large, only the
 * first one
 */
export function parseWith<Value>(
  schema: z.ZodType<Value>,
  value: unknown,
  place: Place = 'body',
): Value {
  const isLarge = hasMoreValues(value, thoroughPartsMax);
  const { success, data, error } = schema.safeParse(value, isLarge ? firstIssue : allIssues);
  if (success) return data;
  throw refusedFields('INVALID_REQUEST', detailsOf(error.issues, { schema, value, place }));
}

function hasMoreValues(value: unknown, countMax: number): boolean {
  let left = countMax;
  const count = (each: unknown): boolean => {
    left -= 1;
    if (left < 0) return true;
    return typeof each === 'object' && each !== null && Object.values(each).some(count);
  };
  return count(value);
}

/** Returns the first error of each invalid field; at most twenty. */
function detailsOf(issues: readonly Issue[], parsed: Parsed): ErrorDetail[] {
  const root = z.toJSONSchema(parsed.schema, { io: 'input', unrepresentable: 'any' });
  const details = new Map<string, string>();
  for (const issue of issues.slice(0, detailsMax).flatMap(innerIssues)) {
    for (const { path, message } of issueDetails(issue, { root, ...parsed })) {
      // A value of the wrong type breaks all other rules of its field too, so only its first error
      // is kept.
      if (!details.has(path)) details.set(path, message);
    }
  }
  return [...details].slice(0, detailsMax).map(([path, message]) => ({ path, message }));
}

/**
 * Replaces the issue of a union by the issues inside the first alternative whose own type fits the
 * value, because these name the invalid field.
 */
function innerIssues(issue: Issue): Issue[] {
  if (issue.code !== 'invalid_union' || issue.message !== '') return [issue];
  const inner = issue.errors.find((errors) => errors.every(({ path }) => path.length > 0));
  if (!inner || inner.length === 0) return [issue];
  return inner.flatMap((each) => innerIssues({ ...each, path: [...issue.path, ...each.path] }));
}

function issueDetails(issue: Issue, parsed: Parsed & { root: Node }): ErrorDetail[] {
  const { root, value, place } = parsed;
  if (issue.code === 'unrecognized_keys') {
    const known = nodesAt(root, issue.path).flatMap(({ properties = {} }) =>
      Object.keys(properties),
    );
    return issue.keys.slice(0, detailsMax).map((key) => ({
      path: pathOf([...issue.path, key], place),
      message: unknownName(key, known, place),
    }));
  }
  const input = valueAt(value, issue.path);
  const path = pathOf(issue.path, place);
  return [{ path, message: messageOf(issue, { nodes: nodesAt(root, issue.path), input, place }) }];
}

function pathOf(path: readonly PropertyKey[], place: Place): string {
  return path.map(String).join('.').slice(0, pathMax) || `(${place})`;
}

function unknownName(name: string, known: readonly string[], place: Place): string {
  if (known.length === 0) {
    return place === 'query' ? 'this endpoint has no query parameters' : 'unknown field';
  }
  const fault = place === 'query' ? 'unknown query parameter' : 'unknown field';
  const [near] = createNearest(known)(name);
  const list =
    known.length > namesMax ? `${known.slice(0, namesMax).join(', ')}, …` : known.join(', ');
  return `${fault}${near === undefined ? '' : `; did you mean ${near}?`}; allowed: ${list}`;
}

interface Fault {
  /** Schemas of the field: several if the value may have several types. */
  nodes: readonly Node[];
  /** Received value. */
  input: unknown;
  place: Place;
}

function messageOf(issue: Issue, { nodes, input, place }: Fault): string {
  const isList = nodes.some(({ type }) => type === 'array');
  if (place === 'query' && Array.isArray(input) && !isList) {
    return `must not be repeated (received ${input.length})`;
  }
  if (issue.message !== '') {
    return input === undefined
      ? issue.message.replace(/^must be /, 'is required: ')
      : issue.message + received(input);
  }
  const choices = nodes.flatMap((node) => ('const' in node ? [node.const] : (node.enum ?? [])));
  const isChoice = nodes.length > 0 && nodes.every((node) => 'const' in node || node.enum);
  const allowed = [...new Set(isChoice ? choices : nodes.map(textOfNode))].map(String);
  if (input === undefined) {
    return `is required: ${isChoice ? `one of ${allowed.join(', ')}` : allowed.join(' or ')}`;
  }
  if (isChoice) return notOneOf(allowed, input);
  return `must be ${allowed.join(' or ') || 'something else'}${measure(issue, input)}`;
}

/**
 * Returns the received value for the message; if the value is too long or too short, its length.
 */
function measure(issue: Issue, input: unknown): string {
  const isLength = 'origin' in issue && (issue.origin === 'string' || issue.origin === 'array');
  if (isLength && (issue.code === 'too_big' || issue.code === 'too_small')) {
    // The characters of a long string are not counted, because that would take too long.
    const isLong = typeof input === 'string' && input.length > countedMax;
    if (isLong) return ` (has more than ${countedMax / 2})`;
    if (typeof input === 'string') return ` (has ${charactersOf(input)})`;
    if (Array.isArray(input)) return ` (has ${input.length})`;
  }
  return received(input);
}

/**
 * Describes allowed values: `an integer of 1–100`, `a string of 3–2000 characters`, `an array of
 * 1–10 strings`.
 */
function textOfNode(node: Node): string {
  if ('const' in node) return JSON.stringify(node.const);
  if (node.enum) return `one of ${node.enum.join(', ')}`;
  switch (node.type) {
    case 'string':
      return stringText(node);
    case 'integer':
    case 'number': {
      const kind = node.type === 'integer' ? 'an integer' : 'a number';
      return kind + rangeText(bounded(node.minimum), bounded(node.maximum));
    }
    case 'boolean':
      return 'true or false';
    case 'array': {
      const { type } =
        typeof node.items === 'object' && !Array.isArray(node.items) ? node.items : {};
      const items = typeof type === 'string' && type !== 'array' ? `${type}s` : 'items';
      const range = rangeText(node.minItems, node.maxItems);
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
      return 'something else';
  }
}

const forms: Readonly<Record<string, string>> = {
  'date-time': 'an ISO 8601 date and time, such as 2026-01-31T12:00:00Z',
  uri: 'a URL',
};

function stringText({ format = '', minLength, maxLength }: Node): string {
  const range = rangeText(minLength, maxLength);
  return forms[format] ?? `a string${range}${range && ' characters'}`;
}

/**
 * Returns a limit; undefined if it is the safe integer limit, which zod adds to each integer
 * schema.
 */
function bounded(limit: number | undefined): number | undefined {
  return limit !== undefined && Math.abs(limit) < Number.MAX_SAFE_INTEGER ? limit : undefined;
}

function rangeText(min: number | undefined, max: number | undefined): string {
  if (min !== undefined && max !== undefined) return ` of ${min === max ? min : `${min}–${max}`}`;
  if (max !== undefined) return ` of at most ${max}`;
  return min === undefined ? '' : ` of at least ${min}`;
}

/** Returns the schemas of the value at a path. */
function nodesAt(root: Node, path: readonly PropertyKey[]): Node[] {
  let nodes = formsOf(root, root);
  for (const key of path) nodes = nodes.flatMap((node) => childrenOf(node, { key, root }));
  return nodes;
}

/**
 * Returns the alternatives of a schema without `null`, because null means the same as an absent
 * field.
 */
function formsOf(node: z.core.JSONSchema._JSONSchema | undefined, root: Node): Node[] {
  if (typeof node !== 'object') return [];
  const { $ref, anyOf, oneOf, type } = node;
  if ($ref !== undefined) return formsOf(root.$defs?.[$ref.split('/').at(-1) ?? ''], root);
  const alternatives = anyOf ?? oneOf;
  if (alternatives) return alternatives.flatMap((each) => formsOf(each, root));
  return type === 'null' ? [] : [node];
}

function childrenOf(node: Node, { key, root }: { key: PropertyKey; root: Node }): Node[] {
  const { properties = {}, items, additionalProperties } = node;
  if (typeof key === 'number') return [items].flat().flatMap((each) => formsOf(each, root));
  if (Object.hasOwn(properties, key)) return formsOf(properties[String(key)], root);
  return formsOf(additionalProperties, root);
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (at, key) =>
      typeof at === 'object' && at !== null && Object.hasOwn(at, key)
        ? Reflect.get(at, key)
        : undefined,
    value,
  );
}
