/** Jobs page: the organization's jobs, newest first, updated live. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { unwrap, api } from '../../gateway/client.ts';
import type { JobFilter } from '../../gateway/live.tsx';
import { usePages } from '../../gateway/pages.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { Credits, formatShare } from '../../parts/amounts.tsx';
import { useQueryString } from '../../parts/query-string.ts';
import { Empty } from '../../parts/states.tsx';
import { JobFilters, readJobFilter } from './job-filters.tsx';
import { JobList } from './job-list.tsx';
import { OwnJobRow } from './job-row.tsx';

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
      <JobFilters filter={{ ...filter }} change={change} />
      <OwnJobs filter={filter} />
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
  const { search, status, phase, ...usageFilter } = filter;
  const { data: usage } = useQuery({
    queryKey: ['usage', 'jobs', usageFilter],
    queryFn: () =>
      unwrap(
        api.GET('/api/v1/usage/summary', {
          params: { query: { ...usageFilter, groupBy: 'type' } },
        }),
      ),
    // Jobs that wait are not charged yet.
    enabled:
      readsUsage &&
      search === undefined &&
      phase === undefined &&
      (status ?? 'completed') === 'completed',
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

function OwnJobs({ filter }: { filter: JobFilter }) {
  const jobs = usePages({
    queryKey: ['jobs', filter],
    read: (cursor) =>
      unwrap(
        // A tag filter is a query parameter named `metadata[<tag>]`.
        api.GET('/api/v1/studio/jobs', {
          params: { query: { ...filter, limit: pageSize, ...cursor } },
        }),
      ),
  });
  return (
    <JobList {...jobs} rowId={({ jobId }) => jobId} renderRow={(job) => <OwnJobRow job={job} />}>
      <NoJobs isFiltered={Object.keys(filter).length > 0} />
    </JobList>
  );
}

function NoJobs({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No jobs match">Change or clear the filters.</Empty>;
  return (
    <Empty title="No jobs yet">
      Create one in the <Link href="/playground/image/generate">playground</Link>, several steps at
      one price as a <Link href="/playground/pipelines">pipeline</Link>, or many rows of a table as
      a <Link href="/bulk">bulk job</Link>. Jobs of your programs appear here too.
    </Empty>
  );
}
