/** Times in answers. */

/** ISO 8601 of Unix ms; null stays null. */
export function isoTime(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString();
}
