/** List of jobs or requests by day, newest first, for callers and operators. */
import { Fragment, type ReactNode } from 'react';
import { useListKeys } from '../../parts/list-keys.ts';
import { ShowMore, type MorePages } from '../../parts/show-more.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import { formatDay } from '../../parts/times.tsx';

interface JobListProps<Line> extends MorePages {
  /** Rows of the list. Undefined while they load. */
  items: readonly Line[] | undefined;
  error: Error | null;
  /** Title of the first column. A column of pictures has none. */
  firstTitle?: string;
  /** Titles of the other columns. */
  titles?: readonly string[];
  /** Name of the list for screen readers. */
  label?: string;
  rowId: (line: Line) => string;
  renderRow: (line: Line) => ReactNode;
  /** Text shown if there are no rows. */
  children: ReactNode;
}

const jobTitles = ['Job', 'Model', 'Status', 'Duration', 'Credits', 'Created'] as const;

/** Shows jobs or requests as rows with a heading for each day. */
export function JobList<Line extends { createdAt: string }>(props: JobListProps<Line>) {
  const { items, error, label = 'Jobs', rowId, renderRow, children, ...rest } = props;
  const { firstTitle = '', titles = jobTitles, ...pages } = rest;
  useListKeys();
  if (error) return <ErrorMessage error={error} />;
  if (!items) return <Loading />;
  if (items.length === 0) {
    return (
      <>
        {children}
        <ShowMore {...pages} />
      </>
    );
  }
  return (
    <>
      <div className={firstTitle === '' ? 'job-list' : 'job-list named'}>
        <div className="job-row heading" aria-hidden="true">
          {[firstTitle, ...titles].map((title) => (
            <span key={title} className={title === 'Credits' ? 'number' : undefined}>
              {title}
            </span>
          ))}
        </div>
        <ul aria-label={label}>
          {items.map((job, index) => (
            <Fragment key={rowId(job)}>
              {formatDay(job.createdAt) !== formatDay(items[index - 1]?.createdAt) && (
                <li className="day">{formatDay(job.createdAt)}</li>
              )}
              <li>{renderRow(job)}</li>
            </Fragment>
          ))}
        </ul>
      </div>
      <ShowMore {...pages} />
    </>
  );
}
