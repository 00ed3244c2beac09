/** Sorting of tables by a click on a column header. */
import { useState } from 'react';

/** Column; rows are sorted by `value`. */
export interface Column<Row> {
  title: string;
  value: (row: Row) => string | number;
  isNumber?: boolean;
}

/** Sorted rows, their column and order, and the function that sorts by another column. */
export interface Sorted<Row> {
  rows: Row[];
  by: Column<Row> | null;
  isDescending: boolean;
  sortBy: (column: Column<Row>) => void;
}

/** Sorts rows by a column; the same column again reverses the order. */
export function useSorted<Row>(rows: readonly Row[]): Sorted<Row> {
  const [by, setBy] = useState<Column<Row> | null>(null);
  const [isDescending, setDescending] = useState(false);
  const sortBy = (column: Column<Row>): void => {
    setDescending(column === by && !isDescending);
    setBy(column);
  };
  const sorted = by
    ? rows.toSorted(
        (one, other) => compare(by.value(one), by.value(other)) * (isDescending ? -1 : 1),
      )
    : [...rows];
  return { rows: sorted, by, isDescending, sortBy };
}

function compare(one: string | number, other: string | number): number {
  return typeof one === 'number' && typeof other === 'number'
    ? one - other
    : String(one).localeCompare(String(other));
}

interface HeadsProps<Row> {
  columns: readonly Column<Row>[];
  sorted: Sorted<Row>;
}

/** Shows the column headers. */
export function Heads<Row>({ columns, sorted: { by, isDescending, sortBy } }: HeadsProps<Row>) {
  return columns.map((column) => {
    const order = isDescending ? 'descending' : 'ascending';
    return (
      <th
        key={column.title}
        scope="col"
        className={column.isNumber ? 'number' : undefined}
        aria-sort={column === by ? order : undefined}
      >
        <button type="button" className="sort" onClick={() => sortBy(column)}>
          {column.title}
          <span aria-hidden="true">{column !== by ? '' : isDescending ? ' ↓' : ' ↑'}</span>
        </button>
      </th>
    );
  });
}
