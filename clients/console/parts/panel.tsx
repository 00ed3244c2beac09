/** Card with a title and a table. */
import type { ReactNode } from 'react';
import { ShowMore, type MorePages } from './show-more.tsx';
import { Empty, ErrorMessage, Loading } from './states.tsx';
import { Table, type Column } from './table.tsx';

interface PanelProps<Item> extends MorePages {
  title: string;
  columns: readonly Column<Item>[];
  /** Rows of the table. Undefined while they load. */
  items: readonly Item[] | undefined;
  rowId: (item: Item) => string;
  error: Error | null;
  /** Text shown if there are no rows. Without it, the card is then hidden. */
  empty?: string;
  /** Explanation shown below the text `empty`. */
  emptyHint?: ReactNode;
  caption?: string | undefined;
  /** Controls shown next to the title. */
  children?: ReactNode;
}

/** Shows a title and a table, or a message if rows are loading, missing or could not be loaded. */
export function Panel<Item>(props: PanelProps<Item>) {
  const { title, columns, items, rowId, error, empty, emptyHint, caption, children, ...pages } =
    props;
  if (empty === undefined && !error && !items?.length) return null;
  return (
    <section className="card stack">
      <div className="head">
        <h2>{title}</h2>
        {children}
      </div>
      <ErrorMessage error={error} />
      {!items && !error && <Loading />}
      {items?.length === 0 && empty && <Empty title={empty}>{emptyHint}</Empty>}
      {items && items.length > 0 && <Table label={title} {...{ columns, items, rowId, caption }} />}
      <ShowMore {...pages} />
    </section>
  );
}
