/** List on an operator's page: a title with a table, an error, or a text for an empty list. */
import type { ReactNode } from 'react';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';
import { Table, type TableColumn, type TableRow } from '../../parts/table.tsx';

interface PanelProps {
  title: string;
  columns: readonly (TableColumn | string)[];
  /** Rows of the table; undefined while they load. */
  rows: readonly TableRow[] | undefined;
  error: Error | null;
  /** Title of the empty list. */
  none: string;
  /** Loads the next page; null if there is none. */
  more?: (() => void) | null;
  /** Controls next to the title. */
  children?: ReactNode;
}

/** Shows a table under a title. */
export function Panel({ title, columns, rows, error, none, more = null, children }: PanelProps) {
  return (
    <section className="card stack">
      <div className="head">
        <h2>{title}</h2>
        {children}
      </div>
      <Refusal error={error} />
      {!rows && !error && <Loading />}
      {rows?.length === 0 && <Empty title={none} />}
      {rows && rows.length > 0 && <Table label={title} columns={columns} rows={rows} />}
      {more && (
        <p>
          <button type="button" onClick={more}>
            Show more
          </button>
        </p>
      )}
    </section>
  );
}
