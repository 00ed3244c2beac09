/** Parses parts of requests with their schemas; an error names each invalid field. */
import { z } from 'zod';
import { invalidFieldsError, type ErrorDetail } from '../../domain/errors.ts';
import { describeIssue, describeUnknownName, type Issue, type Place } from './issue-messages.ts';
import { findNodes, type Node } from './schema-nodes.ts';

interface Parsed {
  schema: z.ZodType;
  value: unknown;
  place: Place;
}

/** Highest number of nested values for which all errors are reported, not only the first. */
const thoroughPartsMax = 1000;
const detailsMax = 20;
const pathMax = 200;
/** Options that find all errors; `describeIssue` writes the messages that schemas do not define. */
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
  throw invalidFieldsError('INVALID_REQUEST', listDetails(error.issues, { schema, value, place }));
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
function listDetails(issues: readonly Issue[], parsed: Parsed): ErrorDetail[] {
  const root = z.toJSONSchema(parsed.schema, { io: 'input', unrepresentable: 'any' });
  const details = new Map<string, string>();
  for (const issue of issues.slice(0, detailsMax).flatMap(openUnions)) {
    for (const { path, message } of describeDetails(issue, { root, ...parsed })) {
      // A value of the wrong type breaks all other rules of its field too, so only its first error
      // is kept.
      if (!details.has(path)) details.set(path, message);
    }
  }
  return [...details].slice(0, detailsMax).map(([path, message]) => ({ path, message }));
}

/** Replaces the issue of a union by those of the first alternative whose type fits the value. */
function openUnions(issue: Issue): Issue[] {
  if (issue.code !== 'invalid_union' || issue.message !== '') return [issue];
  const inner = issue.errors.find((errors) => errors.every(({ path }) => path.length > 0));
  if (!inner || inner.length === 0) return [issue];
  return inner.flatMap((each) => openUnions({ ...each, path: [...issue.path, ...each.path] }));
}

function describeDetails(issue: Issue, parsed: Parsed & { root: Node }): ErrorDetail[] {
  const { root, value, place } = parsed;
  if (issue.code === 'unrecognized_keys') {
    const known = findNodes(root, issue.path).flatMap(({ properties = {} }) =>
      Object.keys(properties),
    );
    return issue.keys.slice(0, detailsMax).map((key) => ({
      path: formatPath([...issue.path, key], place),
      message: describeUnknownName(key, known, place),
    }));
  }
  const input = valueAt(value, issue.path);
  const path = formatPath(issue.path, place);
  return [
    { path, message: describeIssue(issue, { nodes: findNodes(root, issue.path), input, place }) },
  ];
}

function formatPath(path: readonly PropertyKey[], place: Place): string {
  return path.map(String).join('.').slice(0, pathMax) || `(${place})`;
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
