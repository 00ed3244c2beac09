/** Prints tables, lists and progress for people, or JSON for programs. */
import { z } from 'zod';
import { formatTime } from './fields.ts';

/** Value of a table cell; null and undefined are printed as `-`. */
export type Cell = string | number | boolean | null | undefined;

/** Formats a cell, and replaces control characters, because the text may come from other users. */
function formatCell(value: Cell): string {
  if (value === null || value === undefined || value === '') return '-';
  return String(value).replaceAll(/\p{Cc}/gu, ' ');
}

/** Formats rows as a table with a header; number columns are right-aligned. */
export function formatTable(rows: Record<string, Cell>[]): string {
  const [first] = rows;
  if (!first) return '(none)\n';
  const names = Object.keys(first);
  const cells = rows.map((row) => names.map((name) => formatCell(row[name])));
  const widths = names.map((name, column) =>
    Math.max(name.length, ...cells.map((row) => row[column]?.length ?? 0)),
  );
  const isNumeric = names.map((name) =>
    rows.every((row) => typeof row[name] === 'number' || row[name] === null),
  );
  const formatLine = (row: string[]): string =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return isNumeric[column] ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd();
  return `${[names.map((name) => name.toUpperCase()), ...cells].map(formatLine).join('\n')}\n`;
}

/** Formats an object as lines, each with a name and its value. */
export function formatList(values: Record<string, Cell>): string {
  const width = Math.max(...Object.keys(values).map((name) => name.length));
  return Object.entries(values)
    .map(([name, value]) => `${name.padEnd(width)}  ${formatCell(value)}\n`)
    .join('');
}

/** Creates the output functions of a command. If `json` is true, results are printed as JSON. */
export function createOutput(json: boolean) {
  let lastProgress = '';
  const isTerminal = process.stderr.isTTY;
  return {
    json,
    /** Prints a result to standard output: `raw` as JSON if `json` is true, or else as text. */
    show(raw: unknown, formatText: () => string): void {
      process.stdout.write(json ? `${JSON.stringify(raw, null, 2)}\n` : formatText());
    },
    write: (text: string): void => void process.stdout.write(text),
    /** Prints a line to standard error; standard output contains only results. */
    note: (text: string): void => void process.stderr.write(`${text}\n`),
    /** Prints the option `--cursor` that requests the next page, unless this page is the last. */
    noteNextPage(cursor: string | null | undefined): void {
      if (cursor) this.note(`For the next page, add --cursor ${cursor}`);
    },
    /** Prints progress to standard error. On a terminal, it replaces the previous progress. */
    showProgress(text: string): void {
      if (text === lastProgress) return;
      // Clears the rest of the line, because the new text may be shorter.
      process.stderr.write(isTerminal ? `\r${text}\u001B[K` : `${text}\n`);
      lastProgress = text;
    },
    /** Ends the progress line. */
    endProgress(): void {
      if (isTerminal && lastProgress !== '') process.stderr.write('\n');
      lastProgress = '';
    },
  };
}
export type Output = ReturnType<typeof createOutput>;

/** Schema of an object with any fields. */
export const fields = z.looseObject({});
export type Fields = z.infer<typeof fields>;
/** Schema of a response that contains one page of a list. */
export const listResponse = z.looseObject({
  data: z.array(fields),
  nextCursor: z.string().nullish(),
});
/** Schema of a response that contains one object. */
export const objectResponse = z.looseObject({ data: fields });

/** Columns by header. A column is a field path, e.g. `window.used`, or a function of the row. */
export type Columns = Record<string, string | ((row: Fields) => Cell)>;

/** Returns a column that shows a zero-based index as a number from 1. */
export function createNumberColumn(path: string): (row: Fields) => Cell {
  return (row) => {
    const index = toCell(row, path);
    return typeof index === 'number' ? index + 1 : null;
  };
}

/**
 * Converts a field to a cell. Fields whose name ends in `At` or `since` are times, and are shown
 * without milliseconds; lists are joined on one line. Returns null if the field is missing.
 */
export function toCell(row: Fields, path: string): Cell {
  let value: unknown = row;
  for (const name of path.split('.')) value = fields.safeParse(value).data?.[name];
  if (Array.isArray(value)) return value.map(String).join('; ');
  if (typeof value !== 'string' && typeof value !== 'number') {
    return typeof value === 'boolean' ? value : null;
  }
  return /(?:At|since)$/.test(path) ? formatTime(value) : value;
}

/** Returns a field that is a list of objects, or an empty list if the field is missing. */
export function readList(row: Fields, name: string): Fields[] {
  return z.array(fields).safeParse(row[name]).data ?? [];
}

/** Converts an object to one cell per column. */
export function toCells(row: Fields, columns: Columns): Record<string, Cell> {
  return Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [
      name,
      typeof column === 'string' ? toCell(row, column) : column(row),
    ]),
  );
}
