/** Operators' jobs page: stuck jobs, jobs with an unknown outcome, and all jobs. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Credits } from '../../parts/amounts.tsx';
import { SelectField } from '../../parts/fields.tsx';
import { IdTail } from '../../parts/ids.tsx';
import { toWords } from '../../parts/names.ts';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { AllJobs } from './all-jobs.tsx';
import { JobActions } from './job-actions.tsx';
import { JobLink, OrganizationLink, TypeAndModel } from './links.tsx';

type StuckWork = OperatorSchemas['StuckWork'];
type UnknownOutcome = OperatorSchemas['UnknownOutcome'];

const refreshMs = 10_000;

/** Shows the operators' jobs page. */
export function OperatorJobs() {
  return (
    <div className="stack">
      <StuckJobs />
      <UnknownOutcomes />
      <AllJobs />
    </div>
  );
}

const minimumAges = [
  [0, 'any time'],
  [300, '5 minutes'],
  [3600, '1 hour'],
] as const;

const organizationColumn = {
  title: 'Organization',
  cell: ({ organizationId, organizationName }: StuckWork | UnknownOutcome) => (
    <OrganizationLink id={organizationId} name={organizationName} />
  ),
};
const creditsColumn = {
  title: 'Credits',
  isNumber: true,
  cell: ({ credits }: StuckWork | UnknownOutcome) => <Credits amount={credits} />,
};

const stuckColumns: Column<StuckWork>[] = [
  {
    title: 'Job',
    cell: ({ id, kind, type, model }) => (
      <>
        {kind === 'studio' ? <JobLink id={id} /> : <IdTail id={id} />}
        <p>
          <TypeAndModel type={type} model={model} />
        </p>
      </>
    ),
  },
  organizationColumn,
  {
    title: 'Reason',
    cell: ({ reasons, workflow }) => (
      <>
        {reasons.map(toWords).join(', ')}
        {workflow && <p className="dim">Workflow: {workflow.status ?? workflow.state}</p>}
      </>
    ),
  },
  creditsColumn,
  { title: 'Created', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
  {
    title: 'Actions',
    cell: ({ id, kind }) => kind === 'studio' && <JobActions jobId={id} isDone={false} />,
  },
];

function StuckJobs() {
  const [olderThanSeconds, setAge] = useState<(typeof minimumAges)[number][0]>(300);
  const { data, error } = useQuery({
    queryKey: ['operator', 'stuck', olderThanSeconds],
    queryFn: () =>
      unwrap(operatorApi.GET('/api/admin/v1/stuck', { params: { query: { olderThanSeconds } } })),
    refetchInterval: refreshMs,
  });
  return (
    <Panel
      title="Stuck jobs"
      columns={stuckColumns}
      items={data?.data}
      rowId={({ id }) => id}
      error={error}
      empty="No stuck jobs"
    >
      <SelectField
        label="Open for at least"
        className="check"
        options={minimumAges}
        value={olderThanSeconds}
        change={setAge}
      />
    </Panel>
  );
}

const unknownOutcomeColumns: Column<UnknownOutcome>[] = [
  {
    title: 'Job',
    cell: ({ jobId, type, model }) => (
      <>
        <JobLink id={jobId} />
        <p>
          <TypeAndModel type={type} model={model} />
        </p>
      </>
    ),
  },
  organizationColumn,
  { title: 'Error', cell: ({ errorCode }) => <code>{errorCode}</code> },
  {
    title: 'Calls',
    cell: ({ calls }) => calls.map(({ provider, state }) => `${provider}: ${state}`).join(', '),
  },
  creditsColumn,
  { title: 'Released', cell: ({ releasedAt }) => <RelativeTime time={releasedAt} /> },
  { title: 'Actions', cell: ({ jobId }) => <JobActions jobId={jobId} isDone /> },
];

function UnknownOutcomes() {
  const { data, error } = useQuery({
    queryKey: ['operator', 'unknown'],
    queryFn: () => unwrap(operatorApi.GET('/api/admin/v1/unknown-outcomes')),
  });
  return (
    <Panel
      title="Unknown outcomes"
      columns={unknownOutcomeColumns}
      items={data?.data}
      rowId={({ jobId }) => jobId}
      error={error}
      empty="No unknown outcomes"
    >
      {data && (
        <p className="dim">
          Jobs being verified: {data.counts.verifying}; jobs released: {data.counts.released}
        </p>
      )}
    </Panel>
  );
}
