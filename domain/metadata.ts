/**
 * Metadata of a Studio job or chat: name-value pairs that the caller chooses, such as the team or
 * the purpose. The job, its webhook and its usage record contain them, and lists can be filtered by
 * them.
 */
import { z } from 'zod';
import { createRecordSchema } from './body-schema.ts';
import { addEndUser, endUserField, splitEndUser, type Pairs } from './end-users.ts';
import { parseWith } from './parsing.ts';

const pairsMax = 16;
const valueLengthMax = 512;
/**
 * Pattern of a metadata name. It excludes `=` and brackets, because filters have the form
 * `metadata[name]=value`.
 */
const namePattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const nameRule = 'must be 1–64 characters of A–Z a–z 0–9 _ . - and begin with a letter or digit';

const value = z
  .string()
  .max(valueLengthMax)
  // oxlint-disable-next-line no-control-regex -- the pattern rejects control characters; it is a string, because OpenAPI documents it
  .regex(new RegExp('^[^\\u0000-\\u001f\\u007f-\\u009f]*$'), 'must not contain control characters');

/** Schema of the `metadata` field. */
export const metadataSchema = createRecordSchema(value, {
  nameLengthMax: 64,
  countMax: pairsMax,
  namePattern,
  nameRule,
});

const fields = z.object({ metadata: metadataSchema.nullish(), endUser: endUserField });

/** Fields `metadata` and `endUser` of every Studio request, with their descriptions. */
export const metadataFields = {
  metadata: metadataSchema.nullish().meta({
    description: `Up to ${pairsMax} name-value pairs of your own. The job, its webhook and its usage record contain them, and lists can be filtered by them.`,
    example: { team: 'marketing' },
  }),
  endUser: endUserField,
};

/**
 * Parses `metadata` and `endUser`. Returns the pairs as they are stored, with that of the end user
 * (end-users.ts); null if there are none.
 * @throws GatewayError INVALID_REQUEST
 */
export function parseMetadata(input: {
  metadata?: unknown;
  endUser?: unknown;
}): Record<string, string> | null {
  const { metadata, endUser = null } = parseWith(fields, input);
  return addEndUser(nullIfEmpty(metadata), endUser);
}

/**
 * Adds the metadata of a bulk job to that of an item, whose pairs replace those of the same name. Pairs of the bulk job
 * for which there is no room are left out, so that a valid item stays valid.
 */
export function addShared(shared: Pairs | null, own: Pairs | null): Pairs | null {
  const [{ endUser, metadata }, added] = [splitEndUser(own), splitEndUser(shared)];
  const further = Object.entries(added.metadata).filter(([name]) => !Object.hasOwn(metadata, name));
  const pairs = [...Object.entries(metadata), ...further].slice(0, pairsMax);
  return addEndUser(nullIfEmpty(Object.fromEntries(pairs)), endUser ?? added.endUser);
}

/** Returns the metadata pairs, or null if there are none. */
export function nullIfEmpty(
  pairs: Record<string, string> | null | undefined,
): Record<string, string> | null {
  return pairs && Object.keys(pairs).length > 0 ? pairs : null;
}

/** Returns whether a string is a valid metadata name, such as `team` in `groupBy=metadata.team`. */
export function isMetadataName(text: string): boolean {
  return namePattern.test(text);
}

/** Schema of `metadata[name]=value` in the query of a list. Items must have all of these pairs. */
export const metadataFilter = metadataSchema.optional().meta({
  description:
    'Return only items with this metadata pair, for example `metadata[team]=marketing`. Repeat the parameter to require several pairs.',
  param: { style: 'deepObject', explode: true },
});

const filterParameter = /^metadata\[(.*)\]$/;

/** Moves all `metadata[name]=value` parameters of a query into one object, `metadata`. */
export function collectMetadata(query: Record<string, unknown>): Record<string, unknown> {
  const pairs: [string, unknown][] = [];
  const otherParameters: [string, unknown][] = [];
  for (const [parameter, text] of Object.entries(query)) {
    const [, name] = filterParameter.exec(parameter) ?? [];
    if (name === undefined) otherParameters.push([parameter, text]);
    else pairs.push([name, text]);
  }
  if (pairs.length === 0) return query;
  return Object.fromEntries([...otherParameters, ['metadata', Object.fromEntries(pairs)]]);
}
