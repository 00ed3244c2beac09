/** A table; on a narrow screen each row becomes a card with the titles of the columns. */
import type { ReactNode } from 'react';

/** Column of a table. */
export interface TableColumn {
  title: string;
  isNumber?: boolean;
}

/** Row of a table: a cell for each column. */
export interface TableRow {
  id: string;
  cells: readonly ReactNode[];
  /** Attributes of the row by which tests and styles find it, for example `{ 'data-job': id }`. */
  attributes?: Record<`data-${string}`, string>;
}

interface TableProps {
  /** Name for screen readers. */
  label: string;
  /** Columns; a string is a title. */
  columns: readonly (TableColumn | string)[];
  rows: readonly TableRow[];
  caption?: string;
  /** Column headers that replace the titles, for sortable columns. */
  heads?: ReactNode;
  className?: string;
}

/** Shows rows in columns. */
export function Table({ label, columns, rows, caption, heads, className }: TableProps) {
  const shown = columns.map((column) => (typeof column === 'string' ? { title: column } : column));
  return (
    // oxlint-disable-next-line no-noninteractive-tabindex -- a scrolling element must be reachable by keyboard
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table className={className}>
        {caption && <caption>{caption}</caption>}
        <thead>
          <tr>{heads ?? shown.map((column) => <Head key={column.title} column={column} />)}</tr>
        </thead>
        <tbody>
          {rows.map(({ id, cells, attributes }) => (
            <tr key={id} {...attributes}>
              {cells.map((cell, index) => (
                <Cell key={shown[index]?.title} column={shown[index]}>
                  {cell}
                </Cell>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Head({ column: { title, isNumber } }: { column: TableColumn }) {
  return (
    <th scope="col" className={isNumber ? 'number' : undefined}>
      {title}
    </th>
  );
}

function Cell({ column, children }: { column: TableColumn | undefined; children: ReactNode }) {
  return (
    <td className={column?.isNumber ? 'number' : undefined} data-title={column?.title}>
      <div>{children}</div>
    </td>
  );
}
