/** Table of the rows of a file before a bulk job starts. Cells that the API rejects are red. */
import type { ReactNode } from 'react';
import type { FileRow, ItemsFile, RowError } from '../../../items/items-file.ts';
import { Table, type Column } from '../../parts/table.tsx';

/** Number of first rows, of rows with errors, and of columns that the table shows. */
const shownMax = { first: 10, wrong: 50, columns: 6 };

interface ShownRow extends FileRow {
  error: RowError | undefined;
}

/** Shows the first rows and those with errors. */
export function ItemsTable({ file, errors }: { file: ItemsFile; errors: readonly RowError[] }) {
  const byRow = new Map(errors.map((error) => [error.row.number, error]));
  const isWrong = ({ number, problem }: FileRow): boolean => problem !== null || byRow.has(number);
  const wrong = new Set(file.rows.filter(isWrong).slice(0, shownMax.wrong));
  const rows = file.rows.filter((row, index) => index < shownMax.first || wrong.has(row));
  const names = new Set(rows.flatMap(({ item }) => Object.keys(readBody(item.body))));
  const columns: Column<ShownRow>[] = [
    { title: capitalize(file.noun), isNumber: true, cell: ({ number }) => number },
    ...['id', 'use', ...[...names].slice(0, shownMax.columns)].map((name) => ({
      title: name,
      cell: (row: ShownRow) => renderCell(row, name),
    })),
    ...(wrong.size > 0 ? [problemColumn] : []),
  ];
  return (
    <Table
      label="Items"
      columns={columns}
      items={rows.map((row) => ({ ...row, error: byRow.get(row.number) }))}
      rowId={({ number }) => String(number)}
      caption={rows.length < file.rows.length ? captionOf(rows.length, file) : undefined}
    />
  );
}

const problemColumn: Column<ShownRow> = {
  title: 'Problem',
  cell: ({ problem, error }) => {
    const text = problem ?? (error && `${error.field} ${error.message}`.trim());
    return text && <span className="wrong">{text}</span>;
  },
};

const captionOf = (shown: number, { rows, noun }: ItemsFile): string =>
  `${shown} of ${rows.length} ${noun}s: the first ones, and those with problems`;

function renderCell({ item, error }: ShownRow, name: string): ReactNode {
  const value = name === 'id' || name === 'use' ? item[name] : readBody(item.body)[name];
  const isWrong = error?.field === name || error?.field.startsWith(`${name}.`);
  return (
    <span className={isWrong ? 'bad-cell' : undefined} dir="auto">
      {formatValue(value) || (isWrong ? 'missing' : '')}
    </span>
  );
}

/** Formats a value. A URL is shown as the name of its file, a list as its values. */
function formatValue(value: unknown): string {
  if (Array.isArray(value)) return value.map(formatValue).join(', ');
  if (typeof value !== 'string') return value === undefined ? '' : JSON.stringify(value);
  const [, name] = /^https?:\/\/[^?#]*\/([^/?#]+)/.exec(value) ?? [];
  return name === undefined ? value : decodeName(name);
}

function decodeName(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

const readBody = (body: unknown): Record<string, unknown> =>
  typeof body === 'object' && body !== null ? { ...body } : {};

const capitalize = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);
