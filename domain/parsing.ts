/** Parses the body and query of requests with their schemas. An error names each invalid field. */
import { z } from 'zod';
import {
  countCharacters,
  createSuggester,
  formatAllowedValues,
  formatReceived,
} from './field-messages.ts';
import { invalidFieldsError, type ErrorDetail } from './errors.ts';

/** JSON schema of a value inside a request. */
export type SchemaNode = z.core.JSONSchema.JSONSchema;

/** Returns the schemas of the value at a path: several if the value may have several types. */
function findNodes(root: SchemaNode, path: readonly PropertyKey[]): SchemaNode[] {
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
function describeNode(node: SchemaNode): string {
  if ('const' in node) return JSON.stringify(node.const);
  if (node.enum) return `one of ${node.enum.join(', ')}`;
  switch (node.type) {
    case 'string':
      return describeString(node);
    case 'integer':
    case 'number': {
      const kind = node.type === 'integer' ? 'an integer' : 'a number';
      const [min, max] = [node.minimum, node.maximum].map(ignoreSafeLimit);
      if (node.exclusiveMinimum === undefined) return kind + describeRange(min, max);
      const above = `${kind} greater than ${node.exclusiveMinimum}`;
      return max === undefined ? above : `${above} and at most ${max}`;
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

/** Violation of a schema. */
export type Issue = z.core.$ZodIssue;
/** Part of the request that contains the invalid value. */
export type RequestPart = 'body' | 'form' | 'query';

/** Maximum number of allowed field names that an error message lists. */
const namesMax = 24;
/** Maximum length, in UTF-16 code units, of a string whose characters are counted. */
const countedLengthMax = 100_000;

/** Returns the message for an unknown field or query parameter; `known` are the allowed names. */
function describeUnknownName(name: string, known: readonly string[], part: RequestPart): string {
  if (known.length === 0) {
    return part === 'query' ? 'this endpoint has no query parameters' : 'unknown field';
  }
  const problem = part === 'query' ? 'unknown query parameter' : 'unknown field';
  const [similar] = createSuggester(known)(name);
  const list =
    known.length > namesMax ? `${known.slice(0, namesMax).join(', ')}, …` : known.join(', ');
  return `${problem}${similar === undefined ? '' : `; did you mean ${similar}?`}; allowed: ${list}`;
}

interface InvalidField {
  /** Schemas of the field. There are several if the field accepts several types. */
  nodes: readonly SchemaNode[];
  input: unknown;
  part: RequestPart;
}

/**
 * Returns the message for an invalid field: its schema's own message, or one built from the schema.
 */
function describeIssue(issue: Issue, { nodes, input, part }: InvalidField): string {
  const isList = nodes.some(({ type }) => type === 'array');
  if (part !== 'body' && Array.isArray(input) && !isList) {
    return `must not be repeated (received ${input.length})`;
  }
  if (issue.message !== '') {
    return input === undefined
      ? issue.message.replace(/^must be /, 'is required: ')
      : issue.message + formatReceived(input);
  }
  const choices = nodes.flatMap((node) => ('const' in node ? [node.const] : (node.enum ?? [])));
  const isChoice = nodes.length > 0 && nodes.every((node) => 'const' in node || node.enum);
  const allowedValues = [...new Set(isChoice ? choices : nodes.map(describeNode))].map(String);
  if (input === undefined) {
    return `is required: ${isChoice ? `one of ${allowedValues.join(', ')}` : allowedValues.join(' or ')}`;
  }
  if (isChoice) return formatAllowedValues(allowedValues, input);
  return `must be ${allowedValues.join(' or ') || 'a valid value'}${describeReceived(issue, input)}`;
}

/** Describes the received value, or only its length if the length is invalid. */
function describeReceived(issue: Issue, input: unknown): string {
  const isLength = 'origin' in issue && (issue.origin === 'string' || issue.origin === 'array');
  if (isLength && (issue.code === 'too_big' || issue.code === 'too_small')) {
    // Counting the characters of a very long string would take too long.
    const isLong = typeof input === 'string' && input.length > countedLengthMax;
    if (isLong) return ` (has more than ${countedLengthMax / 2})`;
    if (typeof input === 'string') return ` (has ${countCharacters(input)})`;
    if (Array.isArray(input)) return ` (has ${input.length})`;
  }
  return formatReceived(input);
}

interface ParseInput {
  schema: z.ZodType;
  value: unknown;
  part: RequestPart;
}

/**
 * Maximum number of values in an input whose errors are all reported. For larger inputs, only the
 * first error is reported.
 */
const allErrorsValuesMax = 1000;
const detailsMax = 20;
const pathMax = 200;
/** Parse options that report all errors, with empty messages unless the schema defines them. */
const allIssues: z.core.ParseContext<Issue> = { error: () => '' };
/** Parse options that stop at the first error, because a large value could have a million. */
const firstIssue: z.core.ParseContextInternal<Issue> = { ...allIssues, abortEarly: true };

/**
 * Parses a value with a schema.
 * @throws GatewayError INVALID_REQUEST that names each invalid field, or only the first one if the
 * value is large
 */
export function parseWith<Value>(
  schema: z.ZodType<Value>,
  value: unknown,
  part: RequestPart = 'body',
): Value {
  const isLarge = hasMoreValues(value, allErrorsValuesMax);
  const { success, data, error } = schema.safeParse(value, isLarge ? firstIssue : allIssues);
  if (success) return data;
  throw invalidFieldsError('INVALID_REQUEST', listDetails(error.issues, { schema, value, part }));
}

/**
 * Checks the fields of an object that a schema describes. Missing fields are no error.
 * @throws GatewayError INVALID_REQUEST that names each invalid field
 */
export function parsePresent(schema: z.ZodType, value: Record<string, unknown>): void {
  const isLarge = hasMoreValues(value, allErrorsValuesMax);
  const { error } = schema.safeParse(value, isLarge ? firstIssue : allIssues);
  const issues = (error?.issues ?? []).filter(({ code, path: [name] }) =>
    name === undefined ? code === 'unrecognized_keys' : Object.hasOwn(value, name),
  );
  if (issues.length === 0) return;
  throw invalidFieldsError('INVALID_REQUEST', listDetails(issues, { schema, value, part: 'body' }));
}

function hasMoreValues(value: unknown, countMax: number): boolean {
  let remaining = countMax;
  const exceeds = (nested: unknown): boolean => {
    remaining -= 1;
    if (remaining < 0) return true;
    return typeof nested === 'object' && nested !== null && Object.values(nested).some(exceeds);
  };
  return exceeds(value);
}

/** JSON Schemas of the parsed schemas. Making one takes 10 ms for a chat. */
const jsonSchemas = new WeakMap<z.ZodType, SchemaNode>();

function findJsonSchema(schema: z.ZodType): SchemaNode {
  const jsonSchema =
    jsonSchemas.get(schema) ?? z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  jsonSchemas.set(schema, jsonSchema);
  return jsonSchema;
}

/** Returns the first error of each invalid field, for at most twenty fields. */
function listDetails(issues: readonly Issue[], parsed: ParseInput): ErrorDetail[] {
  const root = findJsonSchema(parsed.schema);
  const details = new Map<string, string>();
  for (const issue of issues.slice(0, detailsMax).flatMap(expandUnion)) {
    for (const { path, message } of describeDetails(issue, { root, ...parsed })) {
      // Only the first error of a field is reported, because a value of the wrong type violates all
      // other rules too.
      if (!details.has(path)) details.set(path, message);
    }
  }
  return [...details].slice(0, detailsMax).map(([path, message]) => ({ path, message }));
}

/** Replaces a union's issue by those of its first alternative whose type matches the value. */
function expandUnion(issue: Issue): Issue[] {
  if (issue.code !== 'invalid_union' || issue.message !== '') return [issue];
  const alternativeIssues = issue.errors.find((errors) =>
    errors.every(({ path }) => path.length > 0),
  );
  if (!alternativeIssues || alternativeIssues.length === 0) return [issue];
  return alternativeIssues.flatMap((nested) =>
    expandUnion({ ...nested, path: [...issue.path, ...nested.path] }),
  );
}

function describeDetails(issue: Issue, parsed: ParseInput & { root: SchemaNode }): ErrorDetail[] {
  const { root, value, part } = parsed;
  if (issue.code === 'unrecognized_keys') {
    const known = findNodes(root, issue.path).flatMap(({ properties = {} }) =>
      Object.keys(properties),
    );
    return issue.keys.slice(0, detailsMax).map((key) => ({
      path: formatPath([...issue.path, key], part),
      message: describeUnknownName(key, known, part),
    }));
  }
  const input = findValue(value, issue.path);
  const path = formatPath(issue.path, part);
  return [
    { path, message: describeIssue(issue, { nodes: findNodes(root, issue.path), input, part }) },
  ];
}

function formatPath(path: readonly PropertyKey[], part: RequestPart): string {
  return path.map(String).join('.').slice(0, pathMax) || (part === 'query' ? '(query)' : '(body)');
}

function findValue(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (parent, key) =>
      typeof parent === 'object' && parent !== null && Object.hasOwn(parent, key)
        ? Reflect.get(parent, key)
        : undefined,
    value,
  );
}
