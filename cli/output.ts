/** What the terminal shows: tables, lists and progress for people, JSON for programs; which field of an answer stands under which name. */
import { z } from 'zod';
import { shortTime } from './fields.ts';

/** A cell of a table; null and undefined are shown as `-`. */
export type Cell = string | number | boolean | null | undefined;

/** Text of others' making, without what could steer the terminal. */
function plain(value: Cell): string {
  if (value === null || value === undefined || value === '') return '-';
  return String(value).replaceAll(/\p{Cc}/gu, ' ');
}

/** Rows under their column names, aligned; columns of numbers to the right. */
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

/** Names and values, one a line. */
export function list(values: Record<string, Cell>): string {
  const width = Math.max(...Object.keys(values).map((name) => name.length));
  return Object.entries(values)
    .map(([name, value]) => `${name.padEnd(width)}  ${plain(value)}\n`)
    .join('');
}

/** Output of this process: results go to standard output. */
export function createOutput(json: boolean) {
  let shown = '';
  const redraws = process.stderr.isTTY;
  return {
    json,
    /** The answer as it came for programs; `human` for people. */
    show(raw: unknown, human: () => string): void {
      process.stdout.write(json ? `${JSON.stringify(raw, null, 2)}\n` : human());
    },
    text: (text: string): void => void process.stdout.write(text),
    /** To standard error: for the eye, never for a pipe. */
    note: (text: string): void => void process.stderr.write(`${text}\n`),
    progress(text: string): void {
      if (text === shown) return;
      // Clears to the end of the line: the new text may be shorter.
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

/** An object of an answer, as it came. */
export const fields = z.looseObject({});
export type Fields = z.infer<typeof fields>;
/** A list in an answer. */
export const listAnswer = z.looseObject({
  data: z.array(fields),
  nextCursor: z.string().nullish(),
});
/** One thing in an answer. */
export const oneAnswer = z.looseObject({ data: fields });

/** A field by its path, e.g. `window.used`, or what is made of several. */
export type Columns = Record<string, string | ((row: Fields) => Cell)>;

/** Makes a column that shows an index from 0 as a number from 1. */
export function numberOf(path: string): (row: Fields) => Cell {
  return (row) => {
    const index = cellOf(row, path);
    return typeof index === 'number' ? index + 1 : null;
  };
}

/** What stands under a path: times to the second, lists in one line; null when there is nothing. */
export function cellOf(row: Fields, path: string): Cell {
  let value: unknown = row;
  for (const name of path.split('.')) value = fields.safeParse(value).data?.[name];
  if (Array.isArray(value)) return value.map(String).join('; ');
  if (typeof value !== 'string' && typeof value !== 'number') {
    return typeof value === 'boolean' ? value : null;
  }
  return /(?:At|since)$/.test(path) ? shortTime(value) : value;
}

/** The list that stands in an answer; empty when there is none. */
export function listIn(row: Fields, name: string): Fields[] {
  return z.array(fields).safeParse(row[name]).data ?? [];
}

/** A row, or a list, of an answer. */
export function cellsOf(row: Fields, columns: Columns): Record<string, Cell> {
  return Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [
      name,
      typeof column === 'string' ? cellOf(row, column) : column(row),
    ]),
  );
}
