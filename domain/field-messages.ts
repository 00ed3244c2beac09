/** Parts of error messages: received value, allowed values, most similar allowed value. */

const shownMax = 40;
/** Prefixes of keys and secrets, of this and other services. */
const secret = /gk_live_|\bsk-|\bwhsec_|\bbearer\s/i;
const url = /^[a-z][\w+.-]*:/i;

/** Formats a received value, shortened and without secrets; a URL has no query and no password. */
function formatValue(value: unknown): string {
  if (typeof value === 'string') return formatText(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

function formatText(text: string): string {
  const head = text.slice(0, 4 * shownMax);
  if (secret.test(head)) return 'a secret';
  const open = url.test(head) ? head.replace(/\?.*$/s, '?…').replace(/\/\/[^/]*@/, '//…@') : head;
  const characters = Array.from(open);
  const isShort = characters.length <= shownMax && head.length === text.length;
  return JSON.stringify(isShort ? open : `${characters.slice(0, shownMax).join('')}…`);
}

/** Makes the end of an error message: ` (received "hihg"; did you mean high?)`. */
export function received(value: unknown, names: readonly string[] = []): string {
  const [near] = typeof value === 'string' ? createNearest(names)(value) : [];
  return ` (received ${formatValue(value)}${near === undefined ? '' : `; did you mean ${near}?`})`;
}

/** Makes the message `must be one of low, high (received "hihg"; did you mean high?)`. */
export function notOneOf(allowed: readonly (string | number)[], value: unknown): string {
  const names = allowed.map(String);
  return `must be one of ${names.join(', ')}${received(value, names)}`;
}

const nearestMax = 3;
/** Minimum similarity of a suggested name, 0 to 1. */
const likenessMin = 0.4;
/** Maximum number of characters that are compared, so that a long name takes little time. */
const lengthMax = 128;

/** Makes a function that returns up to three names similar to a text (Sørensen–Dice). */
export function createNearest(names: readonly string[]): (text: string) => string[] {
  const known = names.map((name) => ({ name, pairs: splitPairs(name) }));
  return (text) => {
    const pairs = splitPairs(text);
    return known
      .map(({ name, pairs: other }) => ({ name, likeness: rateLikeness(pairs, other) }))
      .filter((match) => match.likeness >= likenessMin)
      .toSorted((a, b) => b.likeness - a.likeness || a.name.length - b.name.length)
      .slice(0, nearestMax)
      .map(({ name }) => name);
  };
}

/** Splits a text into letter pairs with markers for its start and end. */
function splitPairs(text: string): Set<string> {
  const letters = text
    .slice(0, lengthMax)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '');
  const plain = letters === '' ? '' : `^${letters}$`;
  return new Set(
    Array.from({ length: Math.max(0, plain.length - 1) }, (_, i) => plain.slice(i, i + 2)),
  );
}

function rateLikeness(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let shared = 0;
  for (const pair of a) if (b.has(pair)) shared += 1;
  return shared === 0 ? 0 : (2 * shared) / (a.size + b.size);
}

/** Counts the characters of a text; an emoji is one, not two UTF-16 units. */
export function charactersOf(text: string): number {
  return Array.from(text).length;
}
