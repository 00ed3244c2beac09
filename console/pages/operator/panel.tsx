/** A list of an operator's page: its head, and a table that is loading, refused, empty or there. */
import type { ReactNode } from 'react';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';

interface PanelProps {
  title: string;
  heads: readonly string[];
  /** Undefined: on their way. Each is a row of the table. */
  rows: readonly ReactNode[] | undefined;
  error: Error | null;
  /** Said where there are none. */
  none: string;
  /** Beside the title. */
  children?: ReactNode;
}

/** Shows a table under a title. */
export function Panel({ title, heads, rows, error, none, children }: PanelProps) {
  return (
    <section className="card stack">
      <div className="head">
        <h2>{title}</h2>
        {children}
      </div>
      <Refusal error={error} />
      {!rows && !error && <Loading />}
      {rows?.length === 0 && <Empty title={none} />}
      {rows && rows.length > 0 && (
        // oxlint-disable-next-line no-noninteractive-tabindex -- what scrolls can be reached by keys
        <div className="scroll" tabIndex={0} role="region" aria-label={title}>
          <table>
            <thead>
              <tr>
                {heads.map((head) => (
                  <th key={head} scope="col">
                    {head}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>{rows}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}
