/** Comparison with a secret word that takes the same time whatever is given. */
import { createHash, timingSafeEqual } from 'node:crypto';

/** Makes the check whether a word is this one. */
export function createWordCheck(expected: string): (given: string | undefined) => boolean {
  const right = digest(expected);
  return (given) => timingSafeEqual(digest(given ?? ''), right);
}

/** Hashed before they are compared: equal lengths, and no time that depends on the word. */
function digest(word: string): Buffer {
  return createHash('sha256').update(word).digest();
}
