/**
 * End users: the people that an organization serves with the gateway, by texts of its own choice. The
 * end user of a job or chat is stored as a pair of its metadata, so that it is wherever metadata is: in
 * plans, items, usage, sums, indexes and the archive (docs/decisions/0019-end-users.md).
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';

/** Name of the pair. The names that callers choose cannot begin with `$`. */
export const endUserPair = '$endUser';

/** Name of the limits of all end users without limits of their own. */
export const allEndUsers = '*';

const endUserLengthMax = 128;
const controls = '\\u0000-\\u001f\\u007f-\\u009f';
const plain = `[^${controls}]`;
/** Patterns of end users with one character, with two, of which one is no `.`, and with more. */
const patterns = [
  `[^*.${controls}]`,
  `[^.${controls}]${plain}`,
  `${plain}[^.${controls}]`,
  `${plain}{3,${endUserLengthMax}}`,
];

/**
 * Schema of an end user. `*` names the limits of all others, and HTTP clients remove `.` and `..` from a path. These
 * are rejected.
 */
export const endUserSchema = z
  .string()
  // The limit counts characters, not UTF-16 code units.
  .max(2 * endUserLengthMax)
  .regex(
    new RegExp(`^(?:${patterns.join('|')})$`, 'u'),
    `must have 1–${endUserLengthMax} characters, no control characters, and must not be *, . or ..`,
  )
  .meta({ maxLength: endUserLengthMax });

/** Field `endUser` of requests, with its description. */
export const endUserField = endUserSchema.nullish().meta({
  description: `End user of the request, named by a text of your own (at most ${endUserLengthMax} characters). You can filter and group usage by end user, and limit each one. The header \`X-End-User\` sets it too.`,
  example: 'customer-7',
});

/** Field `endUser` of responses. */
export const endUserShown = z
  .string()
  .nullable()
  .meta({ description: 'End user of the request; null if it named none.' });

/**
 * Returns the end user that a field of OpenAI's API names; null if it names none. A text that is no
 * valid end user is replaced by its hash.
 */
export function readClientUser(text: string | null | undefined): string | null {
  if (text == null || text === '') return null;
  if (endUserSchema.safeParse(text).success) return text;
  return createHash('sha256').update(text).digest('hex');
}

/** Names and values of metadata. */
export type Pairs = Record<string, string>;

/** Adds the end user of a request to its metadata. */
export function addEndUser(metadata: Pairs | null, endUser: string | null): Pairs | null {
  return endUser === null ? metadata : { ...metadata, [endUserPair]: endUser };
}

/** Splits stored metadata into the end user and the pairs that the caller chose. */
export function splitEndUser(stored: Pairs | null): { endUser: string | null; metadata: Pairs } {
  const { [endUserPair]: endUser = null, ...metadata } = stored ?? {};
  return { endUser, metadata };
}
