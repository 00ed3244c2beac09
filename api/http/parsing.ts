/**
 * Parses parts of requests by their schemas. Every error message has the same form: the field, what
 * is allowed (read from its schema), what was received. A schema with its own message for an error
 * keeps it.
 */
import { z } from 'zod';
import { charactersOf, createNearest, notOneOf, received } from '../../domain/request-words.ts';
import { refusedFields, type ErrorDetail } from '../../domain/errors.ts';

type Issue = z.core.$ZodIssue;
type Node = z.core.JSONSchema.JSONSchema;

/** Part of the request that contains the value. */
type Place = 'body' | 'query';

/** Value and schema. */
interface Parsed {
  schema: z.ZodType;
  value: unknown;
  place: Place;
}

/** Limit of a value's parts, above which only the first invalid part is reported. */
const thoroughPartsMax = 1000;
const detailsMax = 20;
/** Names that an error message lists; a chat has more fields than a message should contain. */
const namesMax = 24;
const pathMax = 200;
/** UTF-16 units of a text whose characters are counted. */
const countedMax = 100_000;

/** Error map of zod for issues without a message of their own. */
const toTheEnd: z.core.ParseContext<Issue> = { error: () => '' };
/** Stops at the first issue of a large value, because zod would check every part of it. */
const untilFirst: z.core.ParseContextInternal<Issue> = { ...toTheEnd, abortEarly: true };

/**
 * Parses a value by a schema.
 * @throws GatewayError INVALID_REQUEST naming each invalid field; of a large value, the first
 */
export function parseWith<Value>(
  schema: z.ZodType<Value>,
  value: unknown,
  place: Place = 'body',
): Value {
  const isWide = holdsMoreParts(value, thoroughPartsMax);
  const { success, data, error } = schema.safeParse(value, isWide ? untilFirst : toTheEnd);
  if (success) return data;
  throw refusedFields('INVALID_REQUEST', wordIssues(error.issues, { schema, value, place }));
}

function holdsMoreParts(value: unknown, countMax: number): boolean {
  let left = countMax;
  const count = (each: unknown): boolean => {
    left -= 1;
    if (left < 0) return true;
    return typeof each === 'object' && each !== null && Object.values(each).some(count);
  };
  return count(value);
}

/** Makes a detail for each issue, the first one of each field; at most twenty. */
function wordIssues(issues: readonly Issue[], parsed: Parsed): ErrorDetail[] {
  const root = z.toJSONSchema(parsed.schema, { io: 'input', unrepresentable: 'any' });
  const details = new Map<string, string>();
  for (const issue of issues.slice(0, detailsMax).flatMap(innerIssues)) {
    for (const { path, message } of detailsOf(issue, { root, ...parsed })) {
      // A value of the wrong type violates all other rules of its field as well.
      if (!details.has(path)) details.set(path, message);
    }
  }
  return [...details].slice(0, detailsMax).map(([path, message]) => ({ path, message }));
}

/** If a value fits one form of a union except for an inner part, the error names that part. */
function innerIssues(issue: Issue): Issue[] {
  if (issue.code !== 'invalid_union' || issue.message !== '') return [issue];
  const inner = issue.errors.find((errors) => errors.every(({ path }) => path.length > 0));
  if (!inner || inner.length === 0) return [issue];
  return inner.flatMap((each) => innerIssues({ ...each, path: [...issue.path, ...each.path] }));
}

function detailsOf(issue: Issue, parsed: Parsed & { root: Node }): ErrorDetail[] {
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
  const given = valueAt(value, issue.path);
  const path = pathOf(issue.path, place);
  return [{ path, message: wordsOf(issue, { nodes: nodesAt(root, issue.path), given, place }) }];
}

function pathOf(path: readonly PropertyKey[], place: Place): string {
  return path.map(String).join('.').slice(0, pathMax) || `(${place})`;
}

function unknownName(name: string, known: readonly string[], place: Place): string {
  if (known.length === 0) {
    return place === 'query' ? 'this endpoint takes no query parameters' : 'unknown field';
  }
  const fault = place === 'query' ? 'unknown query parameter' : 'unknown field';
  const [near] = createNearest(known)(name);
  const list =
    known.length > namesMax ? `${known.slice(0, namesMax).join(', ')}, …` : known.join(', ');
  return `${fault}${near === undefined ? '' : `; did you mean ${near}?`}; allowed: ${list}`;
}

interface Fault {
  /** Describes the allowed values; a union has several descriptions. */
  nodes: readonly Node[];
  given: unknown;
  place: Place;
}

function wordsOf(issue: Issue, { nodes, given, place }: Fault): string {
  const isList = nodes.some(({ type }) => type === 'array');
  if (place === 'query' && Array.isArray(given) && !isList) {
    return `must not be repeated (received ${given.length})`;
  }
  if (issue.message !== '') {
    return given === undefined
      ? issue.message.replace(/^must be /, 'is required: ')
      : issue.message + received(given);
  }
  const choices = nodes.flatMap((node) => ('const' in node ? [node.const] : (node.enum ?? [])));
  const isChoice = nodes.length > 0 && nodes.every((node) => 'const' in node || node.enum);
  const allowed = [...new Set(isChoice ? choices : nodes.map(wordsOfNode))].map(String);
  if (given === undefined) {
    return `is required: ${isChoice ? `one of ${allowed.join(', ')}` : allowed.join(' or ')}`;
  }
  if (isChoice) return notOneOf(allowed, given);
  return `must be ${allowed.join(' or ') || 'something else'}${measure(issue, given)}`;
}

/** Describes the received value; for a wrong length, the length. */
function measure(issue: Issue, given: unknown): string {
  const isLength = 'origin' in issue && (issue.origin === 'string' || issue.origin === 'array');
  if (isLength && (issue.code === 'too_big' || issue.code === 'too_small')) {
    // The characters of a very long text are not counted, because that takes long.
    const isLong = typeof given === 'string' && given.length > countedMax;
    if (isLong) return ` (has more than ${countedMax / 2})`;
    if (typeof given === 'string') return ` (has ${charactersOf(given)})`;
    if (Array.isArray(given)) return ` (has ${given.length})`;
  }
  return received(given);
}

/**
 * Describes a schema: `an integer of 1–100`, `a string of 3–2000 characters`, `an array of 1–10
 * strings`.
 */
function wordsOfNode(node: Node): string {
  if ('const' in node) return JSON.stringify(node.const);
  if (node.enum) return `one of ${node.enum.join(', ')}`;
  switch (node.type) {
    case 'string':
      return stringWords(node);
    case 'integer':
    case 'number': {
      const kind = node.type === 'integer' ? 'an integer' : 'a number';
      return kind + rangeWords(bounded(node.minimum), bounded(node.maximum));
    }
    case 'boolean':
      return 'true or false';
    case 'array': {
      const { type } =
        typeof node.items === 'object' && !Array.isArray(node.items) ? node.items : {};
      const items = typeof type === 'string' && type !== 'array' ? `${type}s` : 'items';
      const range = rangeWords(node.minItems, node.maxItems);
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

function stringWords({ format = '', minLength, maxLength }: Node): string {
  const range = rangeWords(minLength, maxLength);
  return forms[format] ?? `a string${range}${range && ' characters'}`;
}

/** Bounds that zod adds to every integer (safe integers) are left out. */
function bounded(limit: number | undefined): number | undefined {
  return limit !== undefined && Math.abs(limit) < Number.MAX_SAFE_INTEGER ? limit : undefined;
}

function rangeWords(min: number | undefined, max: number | undefined): string {
  if (min !== undefined && max !== undefined) return ` of ${min === max ? min : `${min}–${max}`}`;
  if (max !== undefined) return ` of at most ${max}`;
  return min === undefined ? '' : ` of at least ${min}`;
}

/** Finds the JSON schemas at a path. */
function nodesAt(root: Node, path: readonly PropertyKey[]): Node[] {
  let nodes = formsOf(root, root);
  for (const key of path) nodes = nodes.flatMap((node) => childrenOf(node, { key, root }));
  return nodes;
}

/** Lists the forms of a schema without `null`, which means the same as an absent field. */
function formsOf(node: z.core.JSONSchema._JSONSchema | undefined, root: Node): Node[] {
  if (typeof node !== 'object') return [];
  const { $ref, anyOf, oneOf, type } = node;
  if ($ref !== undefined) return formsOf(root.$defs?.[$ref.split('/').at(-1) ?? ''], root);
  const several = anyOf ?? oneOf;
  if (several) return several.flatMap((each) => formsOf(each, root));
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
