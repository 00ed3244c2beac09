/** Table of items. On a narrow screen, each row becomes a card that repeats the column titles. */
import { useState, type ReactNode } from 'react';

/** Column of a table. */
export interface Column<Item> {
  title: string;
  isNumber?: boolean;
  cell: (item: Item) => ReactNode;
  /** Returns the value to sort by. Omit it if the table cannot be sorted by this column. */
  sortValue?: (item: Item) => string | number;
}

interface TableProps<Item> {
  /** Name of the table for screen readers. */
  label: string;
  columns: readonly Column<Item>[];
  items: readonly Item[];
  rowId: (item: Item) => string;
  caption?: string | undefined;
}

/** Shows each item as a row of a table. */
export function Table<Item>({ label, columns, items, rowId, caption }: TableProps<Item>) {
  const { sorted, renderHeader } = useSorted(columns, items);
  return (
    // oxlint-disable-next-line no-noninteractive-tabindex -- a scrolling element must be reachable by keyboard
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table className={columns.some(({ sortValue }) => sortValue) ? 'sortable' : undefined}>
        {caption && <caption>{caption}</caption>}
        <thead>
          <tr>{columns.map(renderHeader)}</tr>
        </thead>
        <tbody>
          {sorted.map((item) => (
            <tr key={rowId(item)} data-row={rowId(item)}>
              {columns.map(({ title, isNumber, cell }) => (
                <td key={title} className={isNumber ? 'number' : undefined} data-title={title}>
                  <div>{cell(item)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/**
 * Returns the sorted items, and a function that shows a column header. Clicking a header sorts by
 * its column; clicking it again reverses the order.
 */
function useSorted<Item>(columns: readonly Column<Item>[], items: readonly Item[]) {
  const [order, setOrder] = useState({ title: '', isDescending: false });
  const direction = order.isDescending ? -1 : 1;
  const getSortValue = columns.find(({ title }) => title === order.title)?.sortValue;
  const sorted = getSortValue
    ? items.toSorted((one, other) => compare(getSortValue(one), getSortValue(other)) * direction)
    : items;
  const renderHeader = ({ title, isNumber, sortValue }: Column<Item>): ReactNode => {
    const isSorted = title === order.title;
    return (
      <th
        key={title}
        scope="col"
        className={isNumber ? 'number' : undefined}
        aria-sort={isSorted ? (order.isDescending ? 'descending' : 'ascending') : undefined}
      >
        {sortValue ? (
          <button
            type="button"
            className="sort"
            onClick={() => setOrder({ title, isDescending: isSorted && !order.isDescending })}
          >
            {title}
            <span aria-hidden="true">{!isSorted ? '' : order.isDescending ? ' ↓' : ' ↑'}</span>
          </button>
        ) : (
          title
        )}
      </th>
    );
  };
  return { sorted, renderHeader };
}

function compare(one: string | number, other: string | number): number {
  return typeof one === 'number' && typeof other === 'number'
    ? one - other
    : String(one).localeCompare(String(other));
}
