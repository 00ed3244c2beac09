/**
 * Builds the error messages for invalid fields. A message names the values that the schema allows,
 * and the received value.
 */
import type { z } from 'zod';
import {
  countCharacters,
  createSuggester,
  formatAllowedValues,
  formatReceived,
} from './field-messages.ts';
import { describeNode, type SchemaNode } from './schema-nodes.ts';

/** Violation of a schema. */
export type Issue = z.core.$ZodIssue;
/** Part of the request that contains the invalid value. */
export type RequestPart = 'body' | 'form' | 'query';

/** Maximum number of allowed field names that an error message lists. */
const namesMax = 24;
/** Maximum length, in UTF-16 code units, of a string whose characters are counted. */
const countedLengthMax = 100_000;

/** Returns the message for an unknown field or query parameter; `known` are the allowed names. */
export function describeUnknownName(
  name: string,
  known: readonly string[],
  part: RequestPart,
): string {
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
export function describeIssue(issue: Issue, { nodes, input, part }: InvalidField): string {
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
