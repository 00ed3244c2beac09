/** List of names and their values. */
import { Fragment, type ReactNode } from 'react';

/** Shows each value after its name. */
export function DescriptionList({ items }: { items: Record<string, ReactNode> }) {
  return (
    <dl className="facts">
      {Object.entries(items).map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}
