/** Messages for invalid fields: the allowed values, read from the schema, and the received one. */
import type { z } from 'zod';
import { charactersOf, createNearest, notOneOf, received } from '../../domain/field-messages.ts';
import { describeNode, type Node } from './schema-nodes.ts';

/** Violation of a schema. */
export type Issue = z.core.$ZodIssue;
/** Part of the request that contains the value. */
export type Place = 'body' | 'query';

/** Highest number of allowed names in an error message. */
const namesMax = 24;
/** Highest length of a string whose characters are counted, in UTF-16 units. */
const countedMax = 100_000;

/** Makes the message for an unknown field or query parameter; `known` are the allowed names. */
export function describeUnknownName(name: string, known: readonly string[], place: Place): string {
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
  input: unknown;
  place: Place;
}

/** Makes the message for an invalid field, unless its schema defines one. */
export function describeIssue(issue: Issue, { nodes, input, place }: Fault): string {
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
  const allowed = [...new Set(isChoice ? choices : nodes.map(describeNode))].map(String);
  if (input === undefined) {
    return `is required: ${isChoice ? `one of ${allowed.join(', ')}` : allowed.join(' or ')}`;
  }
  if (isChoice) return notOneOf(allowed, input);
  return `must be ${allowed.join(' or ') || 'a valid value'}${describeValue(issue, input)}`;
}

/** Returns the received value for the message; its length if that is wrong. */
function describeValue(issue: Issue, input: unknown): string {
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
