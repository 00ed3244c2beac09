/**
 * The jobs of the organization, newest first, updated by events. Only the rows in view are
 * rendered.
 */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';
import { Link } from 'wouter';
import { answered, api } from '../../gateway/client.ts';
import type { JobFilter } from '../../gateway/live.tsx';
import { useWho } from '../../gateway/session.ts';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';
import { JobFilters, useJobFilter } from './job-filters.tsx';
import { JobRow } from './job-row.tsx';

const pageSize = 50;
/** Height of a row in the style sheet. */
const rowPixels = 64;

/** Lists the jobs. */
export default function Jobs() {
  const [filter, change] = useJobFilter();
  const who = useWho();
  const refusal = who.refuses('studio:read');
  if (refusal !== null) return <Empty title="Jobs">{refusal}</Empty>;
  return (
    <>
      <div className="head">
        <h1>Jobs</h1>
        <Total filter={filter} />
        <p className="live">Live</p>
      </div>
      <JobFilters filter={filter} change={change} />
      <JobList filter={filter} />
    </>
  );
}

function Total({ filter }: { filter: JobFilter }) {
  const { data } = useQuery({
    queryKey: ['job-count', filter],
    queryFn: () =>
      answered(api.GET('/api/v1/studio/jobs/count', { params: { query: { ...filter } } })),
  });
  if (!data) return null;
  const { count } = data.data;
  return (
    <p className="dim" data-total={count}>
      {count.toLocaleString()} {count === 1 ? 'job' : 'jobs'}
    </p>
  );
}

function useJobs(filter: JobFilter) {
  return useInfiniteQuery({
    queryKey: ['jobs', filter],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/api/v1/studio/jobs', {
          // The pairs of tags are names of query parameters.
          params: {
            query: { ...filter, limit: pageSize, ...(pageParam && { cursor: pageParam }) },
          },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => nextCursor,
  });
}

const heads = ['Result', 'Job', 'Model', 'Status', 'Duration', 'Credits', 'Created'] as const;

function JobList({ filter }: { filter: JobFilter }) {
  const { data, error, isPending, hasNextPage, isFetchingNextPage, fetchNextPage } =
    useJobs(filter);
  const jobs = data?.pages.flatMap((page) => page.data) ?? [];
  const place = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: jobs.length,
    getScrollElement: () => place.current,
    estimateSize: () => rowPixels,
    getItemKey: (index) => jobs[index]?.jobId ?? index,
    overscan: 12,
  });
  const shown = rows.getVirtualItems();
  const lastShown = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (lastShown >= jobs.length - 10 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [lastShown, jobs.length, hasNextPage, isFetchingNextPage, fetchNextPage]);
  if (error) return <Refusal error={error} />;
  if (isPending) return <Loading />;
  if (jobs.length === 0) return <NoJobs isFiltered={Object.keys(filter).length > 0} />;
  return (
    <div ref={place} className="job-list">
      <div className="job-row heading" aria-hidden="true">
        {heads.map((title) => (
          <span key={title} className={title === 'Credits' ? 'number' : undefined}>
            {title}
          </span>
        ))}
      </div>
      <ul aria-label="Jobs" style={{ height: rows.getTotalSize() }}>
        {shown.map(({ index, key, start }) => {
          const job = jobs[index];
          return (
            job && (
              <li key={key} style={{ transform: `translateY(${start}px)` }}>
                <JobRow job={job} />
              </li>
            )
          );
        })}
      </ul>
    </div>
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
