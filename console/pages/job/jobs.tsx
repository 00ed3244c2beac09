/** The jobs of the organization, newest first, as they happen. Only the rows in view are there. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';
import { Link } from 'wouter';
import { answered, api, type Job } from '../../gateway/client.ts';
import type { JobFilter } from '../../gateway/live.tsx';
import { useWho } from '../../gateway/session.ts';
import { Empty, Refusal } from '../../parts/states.tsx';
import { Ago, Credits, State } from '../../parts/values.tsx';
import { JobFilters, useJobFilter } from './job-filters.tsx';
import { mediaOf } from './job-media.ts';

const pageSize = 50;
/** As the style has it. */
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
        <p className="dim">Changes appear by themselves.</p>
      </div>
      <JobFilters filter={filter} change={change} />
      <JobList filter={filter} />
    </>
  );
}

function useJobs(filter: JobFilter) {
  return useInfiniteQuery({
    queryKey: ['jobs', filter],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) =>
      answered(
        api.GET('/api/v1/studio/jobs', {
          // The pairs of tags are words of the query by themselves.
          params: {
            query: { ...filter, limit: pageSize, ...(pageParam && { cursor: pageParam }) },
          },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => nextCursor,
  });
}

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
  if (!isPending && jobs.length === 0)
    return <Empty title="No such jobs">The playground makes some.</Empty>;
  return (
    <div ref={place} className="job-list">
      <div className="job-row heading" aria-hidden="true">
        {['Result', 'Job', 'Model', 'Status', 'Credits', 'Begun'].map((title) => (
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
                <Row job={job} />
              </li>
            )
          );
        })}
      </ul>
    </div>
  );
}

function Row({ job }: { job: Job }) {
  const { state, charged, reserved } = job.billing;
  return (
    <Link href={`/jobs/${job.jobId}`} className="job-row">
      <Thumb job={job} />
      <span>
        <strong>{job.type}</strong>
        <br />
        <code className="dim">{job.jobId.slice(0, 16)}…</code>
      </span>
      <span>{job.model ?? '–'}</span>
      <State of={job.status} />
      <span className={state === 'reserved' ? 'number dim' : 'number'}>
        <Credits amount={state === 'reserved' ? reserved : charged} />
      </span>
      <span className="dim">
        <Ago at={job.createdAt} />
      </span>
    </Link>
  );
}

const marks = { video: '▶', audio: '♪' } as const;

function Thumb({ job }: { job: Job }) {
  const [media] = mediaOf(job);
  if (media?.kind === 'image')
    return <img className="thumb" src={media.url} alt="" loading="lazy" />;
  return (
    <span className="thumb" aria-hidden="true">
      {media ? marks[media.kind] : job.done ? '–' : '…'}
    </span>
  );
}
