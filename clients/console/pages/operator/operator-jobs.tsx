/** Operators' jobs page: stuck jobs, jobs with an unknown outcome, and all jobs. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { serverNowMs, unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Credits } from '../../parts/amounts.tsx';
import { SelectField } from '../../parts/fields.tsx';
import { IdTail } from '../../parts/ids.tsx';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { AllJobs } from './all-jobs.tsx';
import { BulkActionButton, BulkActions } from './bulk-actions.tsx';
import { JobActions, type JobAction } from './job-actions.tsx';
import { JobLink, OrganizationLink, TypeAndModel } from './links.tsx';

type StuckWork = OperatorSchemas['StuckWork'];
type UnknownOutcome = OperatorSchemas['UnknownOutcome'];

const refreshMs = 10_000;

/** Shows the operators' jobs page. */
export function OperatorJobs() {
  return (
    <div className="stack">
      <StuckJobs />
      <BulkActions />
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

/** Describes a stuck job in two or three words, with the action that helps. */
function classify({ workflow, reasons, deadlineAt }: StuckWork): [string, JobAction] {
  const text = reasons.join(' ');
  if (workflow && workflow.state !== 'running') return ['no workflow', 'resettle'];
  if (text.includes('unknown outcome')) return ['outcome unknown', 'reverify'];
  if (text.includes('was paused')) return ['provider paused', 'reverify'];
  if (deadlineAt !== null && Date.parse(deadlineAt) < serverNowMs())
    return ['past deadline', 'reverify'];
  return ['slow', 'reverify'];
}

const stuckColumns: Column<StuckWork>[] = [
  {
    title: 'Job',
    cell: ({ id, kind, type, model }) => (
      <>
        {kind === 'studio' ? <JobLink id={id} /> : <IdTail id={id} />}
        <TypeAndModel type={type} model={model} />
      </>
    ),
  },
  {
    title: 'State',
    cell: (work) => <State name={work.kind === 'chat' ? 'open chat' : classify(work)[0]} />,
  },
  {
    title: 'Reason',
    cell: ({ reasons }) => (
      <span className="line dim" title={reasons.join('; ')}>
        {reasons[0]}
      </span>
    ),
  },
  organizationColumn,
  { title: 'Age', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
  creditsColumn,
  {
    title: 'Actions',
    cell: (work) =>
      work.kind === 'studio' && (
        <JobActions jobId={work.id} isDone={false} recommended={classify(work)[1]} />
      ),
  },
];

/** Creates the column with a checkbox for each job. */
function createSelectColumn(
  selected: readonly string[],
  change: (jobIds: readonly string[]) => void,
): Column<StuckWork> {
  return {
    title: 'Select',
    cell: ({ id, kind }) =>
      kind === 'studio' && (
        <input
          type="checkbox"
          aria-label={`Select ${id}`}
          checked={selected.includes(id)}
          onChange={({ target }) =>
            change(target.checked ? [...selected, id] : selected.filter((other) => other !== id))
          }
        />
      ),
  };
}

function StuckJobs() {
  const [selected, setSelected] = useState<readonly string[]>([]);
  const [olderThanSeconds, setAge] = useState<(typeof minimumAges)[number][0]>(300);
  const { data, error } = useQuery({
    queryKey: ['operator', 'stuck', olderThanSeconds],
    queryFn: () =>
      unwrap(operatorApi.GET('/api/admin/v1/stuck', { params: { query: { olderThanSeconds } } })),
    refetchInterval: refreshMs,
  });
  // Settled jobs are no longer in the list.
  const jobIds = selected.filter((jobId) => data?.data.some(({ id }) => id === jobId));
  return (
    <Panel
      title="Stuck jobs"
      columns={[createSelectColumn(jobIds, setSelected), ...stuckColumns]}
      items={data?.data}
      rowId={({ id }) => id}
      error={error}
      empty="No stuck jobs"
      emptyHint="A job appears here when it is past its deadline, or its workflow ended without settling it."
    >
      {jobIds.length > 0 && (
        <BulkActionButton label={`Act on ${jobIds.length} selected`} filter={{ jobIds }} />
      )}
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
  {
    title: 'Actions',
    cell: ({ jobId }) => <JobActions jobId={jobId} isDone recommended="reverify" />,
  },
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
      emptyHint="A call appears here when a provider did not say whether it did the work: its job was released, and the provider may bill it."
    >
      {data && (
        <p className="dim">
          Jobs being verified: {data.counts.verifying}; jobs released: {data.counts.released}
        </p>
      )}
    </Panel>
  );
}
