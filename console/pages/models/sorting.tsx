/** Tables that a click on a column's head sorts. */
import { useState } from 'react';

/** A column. `value`: what rows are sorted by. */
export interface Column<Row> {
  title: string;
  value: (row: Row) => string | number;
  isNumber?: boolean;
}

/** The rows in the chosen order, the column they are sorted by, and how to choose another. */
export interface Sorted<Row> {
  rows: Row[];
  by: Column<Row> | null;
  isDescending: boolean;
  sortBy: (column: Column<Row>) => void;
}

/** Unsorted until a column is chosen; the same once more turns the order around. */
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

/** The heads of the columns. */
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
