/**
 * Writes responses as CSV (RFC 4180), and defines the query field for a byte order mark, without
 * which Excel reads UTF-8 as another encoding.
 */
import { z } from 'zod';

/** Value of a cell. */
type Cell = string | number | null | undefined;

/** Query field `bom` of endpoints that respond with CSV. */
export const csvFields = {
  bom: z.enum(['true', 'false']).default('false').meta({
    description: 'With `true`, CSV begins with a byte order mark, which Excel needs for UTF-8.',
  }),
};

/** Formats the header of a table, after a byte order mark if `bom` is `true`. */
export const formatCsvHeader = (names: readonly string[], bom: 'true' | 'false'): string =>
  (bom === 'true' ? '\uFEFF' : '') + formatCsvRow(names);

/** Formats a row. */
export const formatCsvRow = (cells: readonly Cell[]): string =>
  `${cells.map(formatCell).join(',')}\r\n`;

/**
 * Formats a cell. Text is always quoted, so that spreadsheets that use another separator, such as a
 * semicolon, do not split it.
 */
const formatCell = (value: Cell): string =>
  typeof value === 'string' ? `"${value.replaceAll('"', '""')}"` : String(value ?? '');

/**
 * Puts an apostrophe before text that looks like a formula, so that spreadsheets do not execute it. A
 * number executes nothing, and stays as it is.
 */
export function escapeFormula(text: string): string {
  const isFormula = /^[=+\-@\t\r]/.test(text) && !/^[+-]?\d+(?:\.\d+)?$/.test(text);
  return isFormula ? `'${text}` : text;
}
