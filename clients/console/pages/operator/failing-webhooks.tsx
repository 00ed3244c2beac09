/** Operators' page of the webhooks whose last delivery attempt failed, with a button that sends them again. */
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { usePages } from '../../gateway/pages.ts';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { Addresses, deliveryColumns, deliveryId } from '../job/delivery-columns.tsx';
import { BulkActionButton } from './bulk-actions.tsx';
import { jobActions } from './job-actions.tsx';
import { JobLink, OrganizationLink } from './links.tsx';
import { OperatorAction } from './operator-action.tsx';

const columns: Column<OperatorSchemas['OwnedWebhook']>[] = [
  {
    title: 'Job, organization',
    cell: ({ jobId, organizationId }) => (
      <>
        <JobLink id={jobId} />
        <OrganizationLink id={organizationId} />
      </>
    ),
  },
  ...deliveryColumns,
  {
    title: 'Action',
    cell: ({ jobId, event }) =>
      event === 'ended' && (
        <OperatorAction
          verb={jobActions.redeliver.verb}
          title={jobActions.redeliver.title}
          path={`/jobs/${jobId}/${jobActions.redeliver.path}`}
        >
          <p>{jobActions.redeliver.hint}</p>
        </OperatorAction>
      ),
  },
];

/** Shows the failing webhooks of all organizations. */
export function FailingWebhooks() {
  const webhooks = usePages({
    queryKey: ['operator', 'webhooks'],
    read: (cursor) =>
      unwrap(operatorApi.GET('/api/admin/v1/webhooks', { params: { query: cursor } })),
  });
  return (
    <div className="stack">
      <Addresses
        webhooks={webhooks.items ?? []}
        renderAction={(jobIds) => (
          <BulkActionButton
            label={`Redeliver all ${jobIds.length}`}
            action="redeliver"
            filter={{ jobIds }}
          />
        )}
      />
      <Panel
        title="Webhooks whose last attempt failed"
        columns={columns}
        {...webhooks}
        rowId={deliveryId}
        empty="Every webhook was delivered"
        emptyHint="Addresses whose last attempt failed appear here, with a way to send all of theirs again."
      />
    </div>
  );
}
