/** A titled list: a table, or the state of its request. */
import type { ReactNode } from 'react';
import { ShowMore, type MorePages } from './show-more.tsx';
import { Empty, ErrorMessage, Loading } from './states.tsx';
import { Table, type Column } from './table.tsx';

interface PanelProps<Item> extends MorePages {
  title: string;
  columns: readonly Column<Item>[];
  /** Rows of the table; undefined while they load. */
  items: readonly Item[] | undefined;
  rowId: (item: Item) => string;
  error: Error | null;
  /** Title of the empty list. */
  empty: string;
  /** Explanation below the title of the empty list. */
  emptyHint?: ReactNode;
  caption?: string | undefined;
  /** Controls next to the title. */
  children?: ReactNode;
}

/** Shows the list. */
export function Panel<Item>(props: PanelProps<Item>) {
  const { title, columns, items, rowId, error, empty, emptyHint, caption, children, ...pages } =
    props;
  return (
    <section className="card stack">
      <div className="head">
        <h2>{title}</h2>
        {children}
      </div>
      <ErrorMessage error={error} />
      {!items && !error && <Loading />}
      {items?.length === 0 && <Empty title={empty}>{emptyHint}</Empty>}
      {items && items.length > 0 && <Table label={title} {...{ columns, items, rowId, caption }} />}
      <ShowMore {...pages} />
    </section>
  );
}
