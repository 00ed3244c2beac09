/**
 * Formats parts of error messages: the received value, the allowed values, and the allowed value
 * that is most similar to the received one.
 */

const shownCharactersMax = 40;
/** Pattern of the prefixes of API keys and secrets of this gateway and of other services. */
const secretPattern = /gk_(?:live|oper|user)_|\bsk-|\bwhsec_|\bbearer\s/i;
const urlPattern = /^[a-z][\w+.-]*:/i;

/** Formats a received value: shortens it, and removes secrets and a URL's query and credentials. */
function formatValue(value: unknown): string {
  if (typeof value === 'string') return formatText(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

function formatText(text: string): string {
  // Before the text is shortened, because credentials end at an `@` that may be far away.
  const withoutCredentials = urlPattern.test(text)
    ? text.replace(/\?.*$/s, '?…').replace(/\/\/[^/]*@/, '//…@')
    : text;
  const start = withoutCredentials.slice(0, 4 * shownCharactersMax);
  if (secretPattern.test(start)) return 'a secret';
  const characters = Array.from(start);
  const isShort =
    characters.length <= shownCharactersMax && start.length === withoutCredentials.length;
  return JSON.stringify(isShort ? start : `${characters.slice(0, shownCharactersMax).join('')}…`);
}

/** Formats the end of an error message: ` (received "hihg"; did you mean high?)`. */
export function formatReceived(value: unknown, names: readonly string[] = []): string {
  const [similar] = typeof value === 'string' ? createSuggester(names)(value) : [];
  const suggestion = similar === undefined ? '' : `; did you mean ${similar}?`;
  return ` (received ${formatValue(value)}${suggestion})`;
}

/** Formats the message `must be one of low, high (received "hihg"; did you mean high?)`. */
export function formatAllowedValues(allowed: readonly (string | number)[], value: unknown): string {
  const names = allowed.map(String);
  return `must be one of ${names.join(', ')}${formatReceived(value, names)}`;
}

const suggestionsMax = 3;
/** Minimum similarity (0 to 1) of a suggested name. */
const similarityMin = 0.4;
/** Maximum number of characters to compare. It limits the cost for very long names. */
const lengthMax = 128;

/** Creates a function that returns up to three names similar to a string (Sørensen–Dice). */
export function createSuggester(names: readonly string[]): (text: string) => string[] {
  const candidates = names.map((name) => ({ name, pairs: splitPairs(name) }));
  return (text) => {
    const pairs = splitPairs(text);
    return candidates
      .map(({ name, pairs: other }) => ({ name, similarity: calculateSimilarity(pairs, other) }))
      .filter((match) => match.similarity >= similarityMin)
      .toSorted((a, b) => b.similarity - a.similarity || a.name.length - b.name.length)
      .slice(0, suggestionsMax)
      .map(({ name }) => name);
  };
}

/** Splits a string into pairs of adjacent letters, after adding markers for its start and end. */
function splitPairs(text: string): Set<string> {
  const letters = text
    .slice(0, lengthMax)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '');
  const markedLetters = letters === '' ? '' : `^${letters}$`;
  return new Set(
    Array.from({ length: Math.max(0, markedLetters.length - 1) }, (_, i) =>
      markedLetters.slice(i, i + 2),
    ),
  );
}

function calculateSimilarity(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let sharedPairs = 0;
  for (const pair of a) if (b.has(pair)) sharedPairs += 1;
  return sharedPairs === 0 ? 0 : (2 * sharedPairs) / (a.size + b.size);
}

/** Counts the characters of a string; an emoji counts as one, not as two UTF-16 units. */
export function countCharacters(text: string): number {
  return Array.from(text).length;
}
