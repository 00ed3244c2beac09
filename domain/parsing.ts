/** Parses the body and query of requests with their schemas. An error names each invalid field. */
import { z } from 'zod';
import { invalidFieldsError, type ErrorDetail } from './errors.ts';
import {
  describeIssue,
  describeUnknownName,
  type Issue,
  type RequestPart,
} from './issue-messages.ts';
import { findNodes, type SchemaNode } from './schema-nodes.ts';

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
