/**
 * What happens to the jobs of the organization, as one stream for the whole console. Nothing else asks
 * again by the clock.
 */
import { useQueryClient, type InfiniteData, type QueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect, useState, type ReactNode } from 'react';
import type { Job, Schemas } from './client.ts';
import { sessionQuery } from './session.ts';

/** Whether the stream of events is there. */
export type Connection = 'connecting' | 'open' | 'lost';

const ConnectionContext = createContext<Connection>('connecting');

/** See `Connection`. */
export const useConnection = (): Connection => useContext(ConnectionContext);

/** What a list of jobs is narrowed by, as its query says it. */
export interface JobFilter {
  status?: Job['status'];
  type?: string;
  model?: string;
  keyId?: string;
  after?: string;
  before?: string;
  [tag: `metadata[${string}]`]: string;
}

/** The pages of a list of jobs, as they are kept. */
export type JobPages = InfiniteData<Schemas['ListJobsAnswer'], string | null>;

/** After a lost stream; the server may be restarting. */
const reconnectMs = 2000;

/** Follows the jobs; `enabled` where the key may read them. */
export function LiveJobs({ enabled, children }: { enabled: boolean; children: ReactNode }) {
  const client = useQueryClient();
  const [connection, setConnection] = useState<Connection>('connecting');
  useEffect(() => (enabled ? follow(client, setConnection) : undefined), [client, enabled]);
  return <ConnectionContext value={enabled ? connection : 'open'}>{children}</ConnectionContext>;
}

function follow(client: QueryClient, tell: (connection: Connection) => void): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let missed = false;

  function connect(): void {
    source = new EventSource('/api/v1/studio/jobs/events');
    source.addEventListener('open', () => {
      tell('open');
      // Whatever happened in between was not told.
      if (missed) void client.invalidateQueries();
      missed = false;
    });
    source.addEventListener('job', ({ data }) => take(client, JSON.parse(String(data))));
    source.addEventListener('error', () => {
      source?.close();
      missed = true;
      tell('lost');
      // Where the session has ended this tells it, and the page to sign in appears.
      void client.invalidateQueries({ queryKey: sessionQuery.queryKey });
      timer = setTimeout(connect, reconnectMs);
    });
  }
  connect();
  return () => {
    source?.close();
    clearTimeout(timer);
  };
}

/** Puts a job wherever it is shown. */
function take(client: QueryClient, job: Job): void {
  const known = client.getQueryData<Job>(['job', job.jobId]);
  client.setQueryData(['job', job.jobId], job);
  for (const query of client.getQueryCache().findAll({ queryKey: ['jobs'] })) {
    // oxlint-disable-next-line no-unsafe-type-assertion -- as pages/job/jobs.tsx names its lists
    const filter = query.queryKey[1] as JobFilter;
    client.setQueryData<JobPages>(
      query.queryKey,
      (pages) => pages && placed(pages, job, fits(job, filter)),
    );
  }
  void client.invalidateQueries({ queryKey: ['timeline', job.jobId] });
  // Credits move when a job begins and when it ends; its own page may have seen it begin.
  if (!known || job.done || job.phase === 'reserved')
    void client.invalidateQueries({ queryKey: ['usage'] });
}

function placed(pages: JobPages, job: Job, belongs: boolean): JobPages {
  const isThere = pages.pages.some(({ data }) => data.some(({ jobId }) => jobId === job.jobId));
  const changed = pages.pages.map((page, index) => {
    const data = isThere
      ? page.data.flatMap((each) => (each.jobId !== job.jobId ? [each] : belongs ? [job] : []))
      : index === 0 && belongs
        ? [job, ...page.data].toSorted((one, other) => (one.jobId < other.jobId ? 1 : -1))
        : page.data;
    return { ...page, data };
  });
  return { ...pages, pages: changed };
}

function fits(
  job: Job,
  { after, before, status, type, model, keyId, ...tags }: JobFilter,
): boolean {
  const same = { status, type, model, keyId };
  return (
    (after === undefined || job.createdAt > after) &&
    (before === undefined || job.createdAt < before) &&
    Object.entries(same).every(
      ([name, value]) => value === undefined || Reflect.get(job, name) === value,
    ) &&
    Object.entries(tags).every(
      ([name, value]) => job.metadata[name.slice('metadata['.length, -1)] === value,
    )
  );
}
