/** Jobs of all organizations: stuck ones, those with an unknown outcome, and all by filters. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { wordsOf } from '../../parts/names.ts';
import type { TableRow } from '../../parts/table.tsx';
import { Ago, Credits, Tail } from '../../parts/values.tsx';
import { AllJobs } from './all-jobs.tsx';
import { JobActions } from './job-actions.tsx';
import { JobLink, OrganizationLink, TypeAndModel } from './links.tsx';
import { Panel } from './panel.tsx';

const refreshMs = 10_000;

/** Shows the jobs. */
export function Work() {
  return (
    <div className="stack">
      <Stuck />
      <Unknown />
      <AllJobs />
    </div>
  );
}

const ages = [
  [0, 'any time'],
  [300, '5 minutes'],
  [3600, '1 hour'],
] as const;
const credits = { title: 'Credits', isNumber: true };

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
      columns={['Job', 'Organization', 'Reason', credits, 'Since', 'Actions']}
      rows={data?.data.map(stuckRow)}
      error={error}
      none="No stuck jobs"
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

function stuckRow(work: OperatorSchemas['StuckWork']): TableRow {
  const { id, kind, organizationId, organizationName, type, model, workflow, reasons } = work;
  return {
    id,
    attributes: { 'data-job': id },
    cells: [
      <>
        {kind === 'studio' ? <JobLink id={id} /> : <Tail of={id} />}
        <br />
        <TypeAndModel type={type} model={model} />
      </>,
      <OrganizationLink key="organization" id={organizationId} name={organizationName} />,
      <>
        {reasons.map(wordsOf).join(', ')}
        {workflow && <p className="dim">Workflow: {workflow.status ?? workflow.state}</p>}
      </>,
      <Credits key="credits" amount={work.credits} />,
      <Ago key="since" at={work.createdAt} />,
      kind === 'studio' && <JobActions jobId={id} isDone={false} />,
    ],
  };
}

function Unknown() {
  const { data, error } = useQuery({
    queryKey: ['operator', 'unknown'],
    queryFn: () => answered(operatorApi.GET('/api/admin/v1/unknown-outcomes')),
  });
  return (
    <Panel
      title="Unknown outcomes"
      columns={['Job', 'Organization', 'Error', 'Calls', credits, 'Released', 'Actions']}
      rows={data?.data.map(unknownRow)}
      error={error}
      none="No unknown outcomes"
    >
      {data && (
        <p className="dim">
          {data.counts.verifying} in verification, {data.counts.released} released
        </p>
      )}
    </Panel>
  );
}

function unknownRow(outcome: OperatorSchemas['UnknownOutcome']): TableRow {
  const { jobId, organizationId, organizationName, type, model, calls } = outcome;
  return {
    id: jobId,
    cells: [
      <>
        <JobLink id={jobId} />
        <br />
        <TypeAndModel type={type} model={model} />
      </>,
      <OrganizationLink key="organization" id={organizationId} name={organizationName} />,
      <code key="error">{outcome.errorCode}</code>,
      calls.map(({ provider, state }) => `${provider}: ${state}`).join(', '),
      <Credits key="credits" amount={outcome.credits} />,
      <Ago key="released" at={outcome.releasedAt} />,
      <JobActions key="actions" jobId={jobId} isDone />,
    ],
  };
}
