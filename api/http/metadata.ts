/**
 * Tags: the `metadata` of a Studio job or chat, name-value pairs that the caller chooses, such as
 * the team or the purpose. They are shown with the job, its webhook and its usage record, and lists
 * can be filtered by them.
 */
import { z } from 'zod';
import { recordOf } from './body-schema.ts';
import { parseWith } from './parsing.ts';

const pairsMax = 16;
const valueLengthMax = 512;
/** Pattern of a name, without `=` and brackets, which `metadata[name]=value` needs. */
const nameForm = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const nameRule = 'must be 1–64 characters of A–Z a–z 0–9 _ . - and begin with a letter or digit';

const value = z
  .string()
  .max(valueLengthMax)
  // oxlint-disable-next-line no-control-regex -- control characters are rejected; escaped, because the pattern is documented
  .regex(new RegExp('^[^\\u0000-\\u001f\\u007f-\\u009f]*$'), 'must not contain control characters');

/** Schema of the `metadata` field. */
export const metadata = recordOf(value, { nameMax: 64, countMax: pairsMax, nameForm, nameRule });

const field = z.object({ metadata: metadata.nullish() });

/** Field `metadata` with its description, for the schema of every Studio request. */
export const metadataFields = {
  metadata: metadata.nullish().meta({
    description: `Up to ${pairsMax} pairs of your own, shown with the job, its webhook and its usage record. Lists can be filtered by them.`,
    example: { team: 'marketing' },
  }),
};

/** Parses `metadata`; returns null without pairs. @throws GatewayError INVALID_REQUEST */
export function parseMetadata(input: unknown): Record<string, string> | null {
  return nonEmptyPairs(parseWith(field, { metadata: input }).metadata);
}

/** Returns the pairs; null if there are none. */
export function nonEmptyPairs(
  pairs: Record<string, string> | null | undefined,
): Record<string, string> | null {
  return pairs && Object.keys(pairs).length > 0 ? pairs : null;
}

/** Returns whether a text is a valid tag name, such as `team` in `groupBy=metadata.team`. */
export function isTagName(word: string): boolean {
  return nameForm.test(word);
}

/** Filter of a list by tags, such as `metadata[team]=marketing`; an item must have all pairs. */
export const metadataFilter = metadata.optional().meta({
  description:
    'Only items with this metadata pair, for example `metadata[team]=marketing`. Repeat it to require several pairs.',
  param: { style: 'deepObject', explode: true },
});

const filterName = /^metadata\[(.*)\]$/;

/** Collects all `metadata[name]=value` parameters of a query in one object `metadata`. */
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
