/** Which names look most like a mistaken one (Sørensen–Dice over pairs of letters). */

const countMax = 3;
/** Below this, two names have nothing to do with each other. */
const likenessMin = 0.4;
/** Nothing sensible is longer; the rest of a hostile name costs nothing. */
const lengthMax = 128;

/** Makes a look-up of the names most like a word, best first, at most three. */
export function createNearest(names: readonly string[]): (word: string) => string[] {
  const known = names.map((name) => ({ name, pairs: pairsOf(name) }));
  return (word) => {
    const pairs = pairsOf(word);
    return known
      .map(({ name, pairs: other }) => ({ name, likeness: likeness(pairs, other) }))
      .filter((match) => match.likeness >= likenessMin)
      .toSorted((a, b) => b.likeness - a.likeness || a.name.length - b.name.length)
      .slice(0, countMax)
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
