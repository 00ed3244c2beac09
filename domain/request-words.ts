/** Words of a refusal: what was sent, what is allowed, and what was probably meant. */

const shownMax = 40;
/** How keys and secrets of this and of other services begin. */
const secret = /gk_live_|\bsk-|\bwhsec_|\bbearer\s/i;
const url = /^[a-z][\w+.-]*:/i;

/** What was sent, shortened; nothing of a secret, and of a URL neither its query nor a password in it. */
function shown(value: unknown): string {
  if (typeof value === 'string') return shownText(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

function shownText(text: string): string {
  const head = text.slice(0, 4 * shownMax);
  if (secret.test(head)) return 'a secret';
  const open = url.test(head) ? head.replace(/\?.*$/s, '?…').replace(/\/\/[^/]*@/, '//…@') : head;
  const characters = Array.from(open);
  const isShort = characters.length <= shownMax && head.length === text.length;
  return JSON.stringify(isShort ? open : `${characters.slice(0, shownMax).join('')}…`);
}

/** ` (received "hihg"; did you mean high?)`: the end of a refusal. */
export function received(given: unknown, names: readonly string[] = []): string {
  const [near] = typeof given === 'string' ? createNearest(names)(given) : [];
  return ` (received ${shown(given)}${near === undefined ? '' : `; did you mean ${near}?`})`;
}

/** `must be one of low, high (received "hihg"; did you mean high?)` */
export function notOneOf(allowed: readonly (string | number)[], given: unknown): string {
  const names = allowed.map(String);
  return `must be one of ${names.join(', ')}${received(given, names)}`;
}

const nearestMax = 3;
/** Below this, two names have nothing to do with each other. */
const likenessMin = 0.4;
/** Nothing sensible is longer; the rest of a hostile name costs nothing. */
const lengthMax = 128;

/** Makes a look-up of the names most like a word (Sørensen–Dice over pairs of letters), best first, at most three. */
export function createNearest(names: readonly string[]): (word: string) => string[] {
  const known = names.map((name) => ({ name, pairs: pairsOf(name) }));
  return (word) => {
    const pairs = pairsOf(word);
    return known
      .map(({ name, pairs: other }) => ({ name, likeness: likeness(pairs, other) }))
      .filter((match) => match.likeness >= likenessMin)
      .toSorted((a, b) => b.likeness - a.likeness || a.name.length - b.name.length)
      .slice(0, nearestMax)
      .map(({ name }) => name);
  };
}

/** Case and signs are what people get wrong, so they do not count; both ends of a short word do. */
function pairsOf(text: string): Set<string> {
  const letters = text
    .slice(0, lengthMax)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '');
  const plain = letters === '' ? '' : `^${letters}$`;
  return new Set(
    Array.from({ length: Math.max(0, plain.length - 1) }, (_, i) => plain.slice(i, i + 2)),
  );
}

function likeness(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let shared = 0;
  for (const pair of a) if (b.has(pair)) shared += 1;
  return shared === 0 ? 0 : (2 * shared) / (a.size + b.size);
}

/** Characters as limits and prices count them: an emoji is one, not two UTF-16 units. */
export function charactersOf(text: string): number {
  return Array.from(text).length;
}
