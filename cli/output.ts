/**
 * Output at the terminal: tables, lists and progress for people, JSON for programs; also the
 * conversion of response fields to cells.
 */
import { z } from 'zod';
import { shortTime } from './fields.ts';

/** A cell of a table; null and undefined are shown as `-`. */
export type Cell = string | number | boolean | null | undefined;

/** Formats a cell without control characters, because the text may come from other users. */
function plain(value: Cell): string {
  if (value === null || value === undefined || value === '') return '-';
  return String(value).replaceAll(/\p{Cc}/gu, ' ');
}

/** Formats rows as a table with column names; columns of numbers are aligned to the right. */
export function table(rows: Record<string, Cell>[]): string {
  const [first] = rows;
  if (!first) return '(none)\n';
  const names = Object.keys(first);
  const cells = rows.map((row) => names.map((name) => plain(row[name])));
  const widths = names.map((name, column) =>
    Math.max(name.length, ...cells.map((row) => row[column]?.length ?? 0)),
  );
  const numeric = names.map((name) =>
    rows.every((row) => typeof row[name] === 'number' || row[name] === null),
  );
  const line = (row: string[]): string =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return numeric[column] ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd();
  return `${[names.map((name) => name.toUpperCase()), ...cells].map(line).join('\n')}\n`;
}

/** Formats names and values, one pair per line. */
export function list(values: Record<string, Cell>): string {
  const width = Math.max(...Object.keys(values).map((name) => name.length));
  return Object.entries(values)
    .map(([name, value]) => `${name.padEnd(width)}  ${plain(value)}\n`)
    .join('');
}

/** Makes the output of this process; `json`: results are printed as JSON. */
export function createOutput(json: boolean) {
  let shown = '';
  const redraws = process.stderr.isTTY;
  return {
    json,
    /** Prints a result to standard output: `raw` as JSON, or the text of `human`. */
    show(raw: unknown, human: () => string): void {
      process.stdout.write(json ? `${JSON.stringify(raw, null, 2)}\n` : human());
    },
    text: (text: string): void => void process.stdout.write(text),
    /** Prints a line to standard error, so that standard output contains only results. */
    note: (text: string): void => void process.stderr.write(`${text}\n`),
    /** Prints the option that shows the next page, if there is one. */
    noteNextPage(cursor: string | null | undefined): void {
      if (cursor) process.stderr.write(`more: --cursor ${cursor}\n`);
    },
    /** Prints the progress to standard error; on a terminal it replaces the previous line. */
    progress(text: string): void {
      if (text === shown) return;
      // The rest of the line is cleared, because the new text may be shorter.
      process.stderr.write(redraws ? `\r${text}\u001B[K` : `${text}\n`);
      shown = text;
    },
    /** Ends the progress line. */
    progressDone(): void {
      if (redraws && shown !== '') process.stderr.write('\n');
      shown = '';
    },
  };
}
export type Output = ReturnType<typeof createOutput>;

/** Schema of a response object with any fields. */
export const fields = z.looseObject({});
export type Fields = z.infer<typeof fields>;
/** Schema of a response with a page of a list. */
export const listAnswer = z.looseObject({
  data: z.array(fields),
  nextCursor: z.string().nullish(),
});
/** Schema of a response with one object in `data`. */
export const oneAnswer = z.looseObject({ data: fields });

/** Columns by name: the path of a field, e.g. `window.used`, or a function of the row. */
export type Columns = Record<string, string | ((row: Fields) => Cell)>;

/** Makes a column that shows an index from 0 as a number from 1. */
export function numberColumn(path: string): (row: Fields) => Cell {
  return (row) => {
    const index = toCell(row, path);
    return typeof index === 'number' ? index + 1 : null;
  };
}

/**
 * Returns the cell of a field: times without milliseconds, lists in one line; null if it is absent.
 */
export function toCell(row: Fields, path: string): Cell {
  let value: unknown = row;
  for (const name of path.split('.')) value = fields.safeParse(value).data?.[name];
  if (Array.isArray(value)) return value.map(String).join('; ');
  if (typeof value !== 'string' && typeof value !== 'number') {
    return typeof value === 'boolean' ? value : null;
  }
  return /(?:At|since)$/.test(path) ? shortTime(value) : value;
}

/** Returns a list of objects in a response; empty if it is absent. */
export function readList(row: Fields, name: string): Fields[] {
  return z.array(fields).safeParse(row[name]).data ?? [];
}

/** Converts a response object to the cells of its columns. */
export function toCells(row: Fields, columns: Columns): Record<string, Cell> {
  return Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [
      name,
      typeof column === 'string' ? toCell(row, column) : column(row),
    ]),
  );
}
