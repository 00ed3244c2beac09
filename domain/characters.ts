/** Counting text. */

/** Characters as limits and prices count them: an emoji is one, not two UTF-16 units. */
export function charactersOf(text: string): number {
  return Array.from(text).length;
}
