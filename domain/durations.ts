/** Formats durations for people. */

/** Formats a duration for sentences, such as `3.2 s`, `5 min` or `2 h`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

/** Formats the time that has passed since a Unix time. */
export const formatAgo = (timeMs: number): string => `${formatDuration(Date.now() - timeMs)} ago`;
