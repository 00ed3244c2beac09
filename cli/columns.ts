/** Answers as tables and lists: which field of an answer stands under which name. */
import { z } from 'zod';
import { shortTime } from './fields.ts';
import type { Cell } from './output.ts';

/** An object of an answer, as it came. */
export const fields = z.looseObject({});
/** See `fields`. */
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
