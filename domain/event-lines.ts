/**
 * Formats server-sent events and lines of JSON. Some readers also split lines at U+0085, U+2028 and
 * U+2029, which JSON permits in strings, so they are escaped.
 */
const lineSeparators = /[\u0085\u2028\u2029]/g;

/** Formats a value as JSON in one line. */
export function formatJsonLine(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    lineSeparators,
    (separator) => `\\u${separator.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Formats an event with a JSON value; the event has no name if `name` is undefined. */
export function formatEvent(value: unknown, name?: string): string {
  const head = name === undefined ? '' : `event: ${name}\n`;
  return `${head}data: ${formatJsonLine(value)}\n\n`;
}
