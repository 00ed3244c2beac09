/** Keeps the shown jobs up to date through an event stream that all tabs share, without polling. */
import { useQueryClient, type InfiniteData, type QueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect, useState, type ReactNode } from 'react';
import type { Job, Schemas } from './client.ts';
import { sessionQuery } from './session.ts';
import { subscribeToSharedStream } from './shared-stream.ts';

/** State of the event stream. */
export type Connection = 'connecting' | 'open' | 'lost';

const ConnectionContext = createContext<Connection>('connecting');

/** Returns the state of the event stream. */
export const useConnection = (): Connection => useContext(ConnectionContext);

/** Filter of a job list, as query parameters of the API. */
export interface JobFilter {
  search?: string;
  status?: Job['status'];
  phase?: 'awaiting_approval';
  type?: string;
  model?: string;
  keyId?: string;
  after?: string;
  before?: string;
  [tag: `metadata[${string}]`]: string;
}

/** Cached pages of a job list. */
export type JobPages = InfiniteData<Schemas['ListJobsAnswer'], string | null>;

/** Time in ms for which data is fresh. If the stream first opens later, the data is reloaded. */
const freshMs = 2000;

interface LiveJobsProps {
  /** API key of the session. Tabs share a stream only if they are signed in with the same key. */
  keyId: string | null;
  /** True if the key may read jobs. */
  enabled: boolean;
  children: ReactNode;
}

/** Updates the jobs that its children show whenever the event stream reports a change. */
export function LiveJobs({ keyId, enabled, children }: LiveJobsProps) {
  const client = useQueryClient();
  const [connection, setConnection] = useState<Connection>('connecting');
  useEffect(
    () => (enabled ? subscribeToJobs(client, `jobs ${keyId}`, setConnection) : undefined),
    [client, keyId, enabled],
  );
  return <ConnectionContext value={enabled ? connection : 'open'}>{children}</ConnectionContext>;
}

function subscribeToJobs(
  client: QueryClient,
  name: string,
  setConnection: (connection: Connection) => void,
): () => void {
  const startedAt = performance.now();
  let hasOpened = false;
  // True if this hidden tab must reload its data when it becomes visible.
  let isStale = false;

  function reloadData(): void {
    isStale = document.visibilityState === 'hidden';
    if (!isStale) void client.invalidateQueries();
  }
  const onVisible = () => {
    if (isStale) reloadData();
  };
  document.addEventListener('visibilitychange', onVisible);

  const stop = subscribeToSharedStream(name, (message) => {
    if (message.kind === 'job') {
      updateJob(client, JSON.parse(message.job));
      return;
    }
    setConnection(message.kind);
    if (message.kind === 'lost') {
      // Reloads the session. If it has ended, the console then shows the sign-in page.
      void client.invalidateQueries({ queryKey: sessionQuery.queryKey });
    } else {
      // Events sent while no stream was open are lost, so the data is reloaded.
      if (hasOpened || performance.now() - startedAt > freshMs) reloadData();
      hasOpened = true;
    }
  });
  return () => {
    document.removeEventListener('visibilitychange', onVisible);
    stop();
  };
}

/** Updates a job in all lists and on its page. */
function updateJob(client: QueryClient, job: Job): void {
  const cachedJob = client.getQueryData<Job>(['job', job.jobId]);
  client.setQueryData(['job', job.jobId], job);
  const isDecided = [cachedJob?.phase, job.phase].includes('awaiting_approval');
  if (!cachedJob || job.done || isDecided)
    void client.invalidateQueries({ queryKey: ['job-count'] });
  if (job.done) void client.invalidateQueries({ queryKey: ['files'] });
  for (const query of client.getQueryCache().findAll({ queryKey: ['jobs'] })) {
    // oxlint-disable-next-line no-unsafe-type-assertion -- pages/job/jobs.tsx builds these query keys from a filter
    const filter = query.queryKey[1] as JobFilter;
    client.setQueryData<JobPages>(
      query.queryKey,
      (pages) => pages && insertJob(pages, job, filter),
    );
  }
  void client.invalidateQueries({ queryKey: ['timeline', job.jobId] });
  // The balance changes when a job is created and when it ends.
  if (!cachedJob || job.done || job.phase === 'queued')
    void client.invalidateQueries({ queryKey: ['usage'] });
}

function insertJob(pages: JobPages, job: Job, filter: JobFilter): JobPages {
  const isMatch = matchesFilter(job, filter);
  // A job is never added to a list that is filtered by a search text: only the API can search.
  const isInserted = isMatch && filter.search === undefined;
  const isListed = pages.pages.some(({ data }) => data.some(({ jobId }) => jobId === job.jobId));
  const changed = pages.pages.map((page, index) => {
    const data = isListed
      ? page.data.flatMap((listed) =>
          listed.jobId !== job.jobId ? [listed] : isMatch ? [job] : [],
        )
      : index === 0 && isInserted
        ? [job, ...page.data].toSorted((one, other) => (one.jobId < other.jobId ? 1 : -1))
        : page.data;
    return { ...page, data };
  });
  return { ...pages, pages: changed };
}

function matchesFilter(
  job: Job,
  { after, before, status, phase, type, model, keyId, ...otherFilters }: JobFilter,
): boolean {
  const expected = { status, phase, type, model, keyId };
  return (
    (after === undefined || job.createdAt > after) &&
    (before === undefined || job.createdAt < before) &&
    Object.entries(expected).every(
      ([name, value]) => value === undefined || Reflect.get(job, name) === value,
    ) &&
    Object.entries(otherFilters).every(
      ([name, value]) =>
        name === 'search' || job.metadata[name.slice('metadata['.length, -1)] === value,
    )
  );
}
