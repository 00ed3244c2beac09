/** Formats server-sent events and lines of JSON. */

/** Characters at which some readers split lines, and which JSON permits in strings. */
const lineSeparators = ['\u0085', '\u2028', '\u2029'];

/** Formats a value as JSON in one line, with these characters escaped. */
export const formatJsonLine = (value: unknown): string => escapeSeparators(JSON.stringify(value));

/** Escapes these characters in the strings of a JSON text. */
export function escapeSeparators(json: string): string {
  let line = json;
  for (const separator of lineSeparators) {
    // Nearly all lines contain none, and a plain search costs a quarter of a replacement.
    if (!line.includes(separator)) continue;
    const code = separator.charCodeAt(0).toString(16).padStart(4, '0');
    line = line.replaceAll(separator, `\\u${code}`);
  }
  return line;
}

/** Formats an event with a JSON value; the event has no name if `name` is undefined. */
export function formatEvent(value: unknown, name?: string): string {
  const head = name === undefined ? '' : `event: ${name}\n`;
  return `${head}data: ${formatJsonLine(value)}\n\n`;
}
