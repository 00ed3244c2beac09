/** Jobs of all organizations: what hangs, what was released without the provider's word, and any by its id. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { Link, useLocation } from 'wouter';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Ago, Credits, State } from '../../parts/values.tsx';
import { JobActions } from './job-actions.tsx';
import { Panel } from './panel.tsx';

const refreshMs = 10_000;

/** Shows the jobs in progress, the stuck and the unknown ones. */
export function Work() {
  return (
    <div className="stack">
      <Find />
      <Stuck />
      <Unknown />
      <Newest />
    </div>
  );
}

function Find() {
  const [jobId, setJobId] = useState('');
  const [, go] = useLocation();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    go(`/operator/jobs/${jobId.trim()}`);
  };
  return (
    <form className="row" role="search" aria-label="Jobs" onSubmit={submit}>
      <label className="check">
        Job
        <input
          required
          placeholder="job_…"
          value={jobId}
          onChange={({ target }) => setJobId(target.value)}
        />
      </label>
      <button type="submit">Explain</button>
    </form>
  );
}

function JobLink({ id }: { id: string }) {
  return (
    <Link href={`/operator/jobs/${id}`}>
      <code>{id}</code>
    </Link>
  );
}

function OrganizationLink({ id }: { id: string }) {
  return (
    <Link href={`/operator/organizations/${id}`}>
      <code>{id.slice(0, 16)}…</code>
    </Link>
  );
}

const ages = [
  [0, 'any time'],
  [300, '5 minutes'],
  [3600, 'an hour'],
] as const;

function Stuck() {
  const [olderThanSeconds, setAge] = useState(300);
  const { data, error } = useQuery({
    queryKey: ['operator', 'stuck', olderThanSeconds],
    queryFn: () =>
      answered(operatorApi.GET('/api/admin/v1/stuck', { params: { query: { olderThanSeconds } } })),
    refetchInterval: refreshMs,
  });
  return (
    <Panel
      title="Stuck jobs"
      heads={['Work', 'Organization', 'Why', 'Credits', 'Since', 'Do']}
      rows={data?.data.map((each) => (
        <StuckLine key={each.id} of={each} />
      ))}
      error={error}
      none="Nothing hangs"
    >
      <label className="check">
        Open for
        <select value={olderThanSeconds} onChange={({ target }) => setAge(Number(target.value))}>
          {ages.map(([seconds, text]) => (
            <option key={seconds} value={seconds}>
              {text}
            </option>
          ))}
        </select>
      </label>
    </Panel>
  );
}

function StuckLine({ of }: { of: OperatorSchemas['StuckWork'] }) {
  const { id, kind, organizationId, type, model, credits, createdAt, workflow, reasons } = of;
  return (
    <tr data-job={id}>
      <td>
        {kind === 'studio' ? <JobLink id={id} /> : <code>{id}</code>}
        <br />
        <span className="dim">{[type ?? kind, model].filter(Boolean).join(' · ')}</span>
      </td>
      <td>
        <OrganizationLink id={organizationId} />
      </td>
      <td>
        {reasons.map((reason) => reason.replaceAll('_', ' ')).join(', ')}
        {workflow && <p className="dim">workflow: {workflow.status ?? workflow.state}</p>}
      </td>
      <td className="number">
        <Credits amount={credits} />
      </td>
      <td>
        <Ago at={createdAt} />
      </td>
      <td>{kind === 'studio' && <JobActions jobId={id} isDone={false} />}</td>
    </tr>
  );
}

function Unknown() {
  const { data, error } = useQuery({
    queryKey: ['operator', 'unknown'],
    queryFn: () => answered(operatorApi.GET('/api/admin/v1/unknown-outcomes')),
  });
  return (
    <Panel
      title="Released without the provider’s answer"
      heads={['Job', 'Organization', 'Error', 'Calls', 'Credits', 'Released', 'Do']}
      rows={data?.data.map(({ jobId, organizationId, errorCode, calls, credits, releasedAt }) => (
        <tr key={jobId}>
          <td>
            <JobLink id={jobId} />
          </td>
          <td>
            <OrganizationLink id={organizationId} />
          </td>
          <td>{errorCode}</td>
          <td>{calls.map(({ provider, state }) => `${provider}: ${state}`).join(', ')}</td>
          <td className="number">
            <Credits amount={credits} />
          </td>
          <td>
            <Ago at={releasedAt} />
          </td>
          <td>
            <JobActions jobId={jobId} isDone />
          </td>
        </tr>
      ))}
      error={error}
      none="None"
    >
      {data && (
        <p className="dim">
          {data.counts.verifying} in doubt, {data.counts.released} released
        </p>
      )}
    </Panel>
  );
}

function Newest() {
  const { data, error, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ['operator', 'jobs'],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: cursor }) =>
      answered(
        operatorApi.GET('/api/admin/v1/jobs', {
          params: { query: { limit: 20, ...(cursor && { cursor }) } },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => nextCursor,
  });
  return (
    <>
      <Panel
        title="Newest jobs"
        heads={['Job', 'Organization', 'Kind', 'Provider', 'Status', 'Credits', 'Begun']}
        rows={data?.pages.flatMap((page) =>
          page.data.map((job) => <NewestLine key={job.jobId} job={job} />),
        )}
        error={error}
        none="No jobs yet"
      />
      {hasNextPage && (
        <button type="button" onClick={() => void fetchNextPage()}>
          Show older ones
        </button>
      )}
    </>
  );
}

function NewestLine({ job }: { job: OperatorSchemas['JobLine'] }) {
  const { jobId, organizationId, type, model, provider, status, billing, createdAt } = job;
  return (
    <tr>
      <td>
        <JobLink id={jobId} />
      </td>
      <td>
        <OrganizationLink id={organizationId} />
      </td>
      <td>
        {type} <span className="dim">{model}</span>
      </td>
      <td>{provider}</td>
      <td>
        <State of={status} />
      </td>
      <td className="number">
        <Credits amount={billing.state === 'reserved' ? billing.reserved : billing.charged} />
      </td>
      <td>
        <Ago at={createdAt} />
      </td>
    </tr>
  );
}
