/** Jobs page: the organization's jobs, newest first, updated live. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { Fragment } from 'react';
import { Link } from 'wouter';
import { unwrap, api } from '../../gateway/client.ts';
import type { JobFilter } from '../../gateway/live.tsx';
import { usePages } from '../../gateway/pages.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { Credits, formatShare } from '../../parts/amounts.tsx';
import { useListKeys } from '../../parts/list-keys.ts';
import { useQueryString } from '../../parts/query-string.ts';
import { ShowMore } from '../../parts/show-more.tsx';
import { Empty, Loading, ErrorMessage } from '../../parts/states.tsx';
import { formatDay } from '../../parts/times.tsx';
import { JobFilters, readJobFilter } from './job-filters.tsx';
import { JobRow } from './job-row.tsx';

const pageSize = 50;

/** Shows the jobs page. */
export default function Jobs() {
  const [search, change] = useQueryString();
  const filter = readJobFilter(search);
  const denial = useSessionKey().explainDenial('studio:read');
  if (denial !== null) return <Empty title="Jobs">{denial}</Empty>;
  return (
    <>
      <div className="head">
        <h1>Jobs</h1>
        <Totals filter={filter} />
        <p className="live">Live</p>
      </div>
      <JobFilters filter={filter} change={change} />
      <JobList filter={filter} />
    </>
  );
}

/** Shows the number of jobs in the list, the share that failed, and the credits charged. */
function Totals({ filter }: { filter: JobFilter }) {
  const { data } = useQuery(countQuery(filter));
  const { data: failed } = useQuery({
    ...countQuery({ ...filter, status: 'failed' }),
    enabled: filter.status === undefined,
  });
  const readsUsage = useSessionKey().explainDenial('usage:read') === null;
  const { search, status, ...usageFilter } = filter;
  const { data: usage } = useQuery({
    queryKey: ['usage', 'jobs', usageFilter],
    queryFn: () =>
      unwrap(
        api.GET('/api/v1/usage/summary', {
          params: { query: { ...usageFilter, groupBy: 'type' } },
        }),
      ),
    enabled: readsUsage && search === undefined && (status ?? 'completed') === 'completed',
  });
  if (!data) return null;
  const { count, complete } = data.data;
  const charged = usage?.rows.filter(({ type }) => type !== 'chat').map(({ credits }) => credits);
  return (
    <p className="dim" data-total={count}>
      {count.toLocaleString()}
      {complete ? '' : '+'} {count === 1 && complete ? 'job' : 'jobs'}
      {count > 0 && failed && ` · ${formatShare(failed.data.count / count)} failed`}
      {usage && charged && (
        <span title={`Charged since ${usage.after}`}>
          {' '}
          · <Credits amount={charged.reduce((sum, credits) => sum + credits, 0)} /> credits
        </span>
      )}
    </p>
  );
}

const countQuery = (filter: JobFilter) =>
  queryOptions({
    queryKey: ['job-count', filter],
    queryFn: () =>
      unwrap(api.GET('/api/v1/studio/jobs/count', { params: { query: { ...filter } } })),
  });

const titles = ['', 'Job', 'Model', 'Status', 'Duration', 'Credits', 'Created'] as const;

function JobList({ filter }: { filter: JobFilter }) {
  const { items, error, ...pages } = usePages({
    queryKey: ['jobs', filter],
    read: (cursor) =>
      unwrap(
        // A tag filter is a query parameter named `metadata[<tag>]`.
        api.GET('/api/v1/studio/jobs', {
          params: { query: { ...filter, limit: pageSize, ...cursor } },
        }),
      ),
  });
  useListKeys();
  if (error) return <ErrorMessage error={error} />;
  if (!items) return <Loading />;
  if (items.length === 0) return <NoJobs isFiltered={Object.keys(filter).length > 0} />;
  return (
    <>
      <div className="job-list">
        <div className="job-row heading" aria-hidden="true">
          {titles.map((title) => (
            <span key={title} className={title === 'Credits' ? 'number' : undefined}>
              {title}
            </span>
          ))}
        </div>
        <ul aria-label="Jobs">
          {items.map((job, index) => (
            <Fragment key={job.jobId}>
              {formatDay(job.createdAt) !== formatDay(items[index - 1]?.createdAt) && (
                <li className="day">{formatDay(job.createdAt)}</li>
              )}
              <li>
                <JobRow job={job} />
              </li>
            </Fragment>
          ))}
        </ul>
      </div>
      <ShowMore {...pages} />
    </>
  );
}

function NoJobs({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No jobs match">Change or clear the filters.</Empty>;
  return (
    <Empty title="No jobs yet">
      Create one in the <Link href="/playground/image/generate">playground</Link>.
    </Empty>
  );
}
