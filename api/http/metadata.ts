/**
 * Tags: the `metadata` of a Studio job or chat, name-value pairs of the caller. They are shown with
 * the job, its webhook and its usage record, and lists can be filtered by them.
 */
import { z } from 'zod';
import { recordOf } from './body-schema.ts';
import { parseWith } from './parsing.ts';

/** Most pairs of one request. */
const pairsMax = 16;
const valueLengthMax = 512;
/**
 * Pattern without `=` and brackets, so that `name=value` in Temporal and `metadata[name]=value` in
 * a query are unambiguous.
 */
const nameForm = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const nameRule = 'is 1–64 of A–Z a–z 0–9 _ . - and begins with a letter or digit';

const value = z
  .string()
  .max(valueLengthMax)
  // oxlint-disable-next-line no-control-regex -- control characters are rejected; readers see them spelled out
  .regex(new RegExp('^[^\\u0000-\\u001f\\u007f-\\u009f]*$'), 'must not contain control characters');

/** Schema of `metadata`. */
export const metadata = recordOf(value, { nameMax: 64, countMax: pairsMax, nameForm, nameRule });

const field = z.object({ metadata: metadata.nullish() });

/** The field `metadata`, as every Studio request describes it. */
export const metadataFields = {
  metadata: metadata.nullish().meta({
    description: `Up to ${pairsMax} pairs of your own, shown with the job, its webhook and its usage record. Lists can be filtered by them.`,
    example: { team: 'marketing' },
  }),
};

/**
 * Reads the pairs of a request; null if there are none.
 * @throws GatewayError INVALID_REQUEST
 */
export function parseMetadata(given: unknown): Record<string, string> | null {
  return pairsOf(parseWith(field, { metadata: given }).metadata);
}

/** Returns the pairs; null if there are none. */
export function pairsOf(
  given: Record<string, string> | null | undefined,
): Record<string, string> | null {
  return given && Object.keys(given).length > 0 ? given : null;
}

/** Returns whether a text has the form of a tag name for `groupBy`: `metadata.team`. */
export function isTagName(word: string): boolean {
  return nameForm.test(word);
}

/**
 * Schema of `metadata` as a filter of a list: `metadata[team]=marketing`; a row must have all
 * pairs.
 */
export const metadataFilter = metadata.optional().meta({
  description:
    'Only items with this metadata pair, for example `metadata[team]=marketing`. Repeat it to require several pairs.',
  param: { style: 'deepObject', explode: true },
});

const filterName = /^metadata\[(.*)\]$/;

/** Collects the `metadata[name]=value` parameters of a query in `metadata`. */
export function foldMetadata(query: Record<string, unknown>): Record<string, unknown> {
  const pairs: [string, unknown][] = [];
  const rest: [string, unknown][] = [];
  for (const [name, each] of Object.entries(query)) {
    const [, tag] = filterName.exec(name) ?? [];
    if (tag === undefined) rest.push([name, each]);
    else pairs.push([tag, each]);
  }
  if (pairs.length === 0) return query;
  return Object.fromEntries([...rest, ['metadata', Object.fromEntries(pairs)]]);
}
