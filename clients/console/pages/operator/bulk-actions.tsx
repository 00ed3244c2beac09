/** Bulk actions: an action on many jobs after a dry run, and the progress of those that were started. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { requestJson, unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Credits } from '../../parts/amounts.tsx';
import { SelectField, toOptions } from '../../parts/fields.tsx';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { actionNames, jobActions, type JobAction } from './job-actions.tsx';
import { OperatorAction } from './operator-action.tsx';

type BulkAction = OperatorSchemas['BulkAction'];

const path = '/bulk-actions';
const jobsMax = 10_000;
const refreshMs = 2000;

interface BulkActionButtonProps {
  label: string;
  /** Action that is preselected. */
  action?: JobAction;
  /** Conditions of the jobs, as the operators' API receives them. */
  filter: object;
  disabledReason?: string | null;
}

/** Shows a button that acts on many jobs, once its dialog has shown how many. */
export function BulkActionButton({ filter, action, ...button }: BulkActionButtonProps) {
  return (
    <OperatorAction
      {...button}
      verb="Run"
      title="Act on many jobs"
      isDangerous
      path={path}
      body={(read) => ({ action: read('action'), filter, jobsMax, dryRun: false })}
    >
      <DryRun filter={filter} preselected={action} />
    </OperatorAction>
  );
}

function DryRun({ filter, preselected }: { filter: object; preselected: JobAction | undefined }) {
  const [action, setAction] = useState<JobAction>(preselected ?? 'reverify');
  const { data, error } = useQuery({
    queryKey: ['operator', 'dry run', action, filter],
    queryFn: () =>
      requestJson<{ data: OperatorSchemas['BulkActionPreview'] }>(`/api/admin/v1${path}`, {
        method: 'POST',
        body: { action, filter, jobsMax, reason: 'dry run' },
      }),
  });
  return (
    <>
      <SelectField
        label="Action"
        name="action"
        options={toOptions(actionNames)}
        value={action}
        change={setAction}
      />
      <p>{jobActions[action].hint}</p>
      <ErrorMessage error={error} />
      <output>
        {data && (
          <>
            <strong>{data.data.applicable}</strong> of {data.data.jobs} jobs can be changed,{' '}
            <Credits amount={data.data.credits} /> credits
          </>
        )}
      </output>
    </>
  );
}

const columns: Column<BulkAction>[] = [
  { title: 'Action', cell: ({ action, reason }) => `${action}: ${reason}` },
  { title: 'State', cell: ({ status }) => <State name={status} /> },
  {
    title: 'Jobs',
    cell: ({ jobs, done, rejected }) => (
      <span className="line">
        <progress max={jobs} value={done + rejected} aria-label="Progress" /> {done} of {jobs} done
        {rejected > 0 && <span className="wrong">, {rejected} not possible</span>}
      </span>
    ),
  },
  { title: 'Credits', isNumber: true, cell: ({ credits }) => <Credits amount={credits} /> },
  { title: 'Actor', cell: ({ actor }) => actor },
  { title: 'Started', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
  {
    title: 'Actions',
    cell: ({ bulkActionId, status }) =>
      status === 'running' && (
        <OperatorAction
          verb="Cancel"
          title="Cancel the bulk action"
          path={`${path}/${bulkActionId}/cancel`}
        >
          <p>The waiting jobs stay unchanged.</p>
        </OperatorAction>
      ),
  },
];

/** Shows the newest bulk actions with their progress. */
export function BulkActions() {
  const { data, error } = useQuery({
    queryKey: ['operator', 'bulk actions'],
    queryFn: () =>
      unwrap(operatorApi.GET('/api/admin/v1/bulk-actions', { params: { query: { limit: 5 } } })),
    refetchInterval: ({ state }) =>
      state.data?.data.some(({ status }) => status === 'running') ? refreshMs : false,
  });
  return (
    <Panel
      title="Bulk actions"
      columns={columns}
      items={data?.data}
      rowId={({ bulkActionId }) => bulkActionId}
      error={error}
    />
  );
}
