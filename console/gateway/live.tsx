/** Keeps the shown jobs up to date through an event stream that all tabs share; no page polls. */
import { useQueryClient, type InfiniteData, type QueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect, useState, type ReactNode } from 'react';
import type { Job, Schemas } from './client.ts';
import { sessionQuery } from './session.ts';
import { followSharedStream } from './shared-stream.ts';

/** State of the event stream. */
export type Connection = 'connecting' | 'open' | 'lost';

const ConnectionContext = createContext<Connection>('connecting');

/** Returns the state of the event stream. */
export const useConnection = (): Connection => useContext(ConnectionContext);

/** Filter of a job list, as query parameters of the API. */
export interface JobFilter {
  search?: string;
  status?: Job['status'];
  type?: string;
  model?: string;
  keyId?: string;
  after?: string;
  before?: string;
  [tag: `metadata[${string}]`]: string;
}

/** Cached pages of a job list. */
export type JobPages = InfiniteData<Schemas['ListJobsAnswer'], string | null>;

/** If the stream first opens within this time, no event was missed and the data stays as it is. */
const freshMs = 2000;

interface LiveJobsProps {
  /** API key of the session. Tabs share a stream only if they are signed in with the same key. */
  keyId: string | null;
  /** True if the key may read jobs. */
  enabled: boolean;
  children: ReactNode;
}

/** Keeps the jobs up to date that its children show. */
export function LiveJobs({ keyId, enabled, children }: LiveJobsProps) {
  const client = useQueryClient();
  const [connection, setConnection] = useState<Connection>('connecting');
  useEffect(
    () => (enabled ? follow(client, `jobs ${keyId}`, setConnection) : undefined),
    [client, keyId, enabled],
  );
  return <ConnectionContext value={enabled ? connection : 'open'}>{children}</ConnectionContext>;
}

function follow(
  client: QueryClient,
  name: string,
  show: (connection: Connection) => void,
): () => void {
  const startedAt = performance.now();
  let hasOpened = false;
  // True if this hidden tab must reload its data when it becomes visible.
  let isStale = false;

  function refresh(): void {
    isStale = document.visibilityState === 'hidden';
    if (!isStale) void client.invalidateQueries();
  }
  const onVisible = () => {
    if (isStale) refresh();
  };
  document.addEventListener('visibilitychange', onVisible);

  const stop = followSharedStream(name, (message) => {
    if (message.kind === 'job') {
      updateJob(client, JSON.parse(message.job));
      return;
    }
    show(message.kind);
    if (message.kind === 'lost') {
      // If the session has ended, the response makes the sign-in page appear.
      void client.invalidateQueries({ queryKey: sessionQuery.queryKey });
    } else {
      // Events sent while no stream was open are lost, so the data is reloaded.
      if (hasOpened || performance.now() - startedAt > freshMs) refresh();
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
  const known = client.getQueryData<Job>(['job', job.jobId]);
  client.setQueryData(['job', job.jobId], job);
  if (!known || job.done) void client.invalidateQueries({ queryKey: ['job-count'] });
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
  if (!known || job.done || job.phase === 'queued')
    void client.invalidateQueries({ queryKey: ['usage'] });
}

function insertJob(pages: JobPages, job: Job, filter: JobFilter): JobPages {
  const isMatch = matches(job, filter);
  // Jobs are never added to a list with a search, because only the API can search.
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

function matches(
  job: Job,
  { after, before, status, type, model, keyId, ...rest }: JobFilter,
): boolean {
  const same = { status, type, model, keyId };
  return (
    (after === undefined || job.createdAt > after) &&
    (before === undefined || job.createdAt < before) &&
    Object.entries(same).every(
      ([name, value]) => value === undefined || Reflect.get(job, name) === value,
    ) &&
    Object.entries(rest).every(
      ([name, value]) =>
        name === 'search' || job.metadata[name.slice('metadata['.length, -1)] === value,
    )
  );
}
