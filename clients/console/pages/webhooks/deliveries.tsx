/** Webhooks of jobs and their delivery state, newest job first. */
import { useState } from 'react';
import { Link } from 'wouter';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';
import { usePages } from '../../gateway/pages.ts';
import { SelectField } from '../../parts/fields.tsx';
import { IdTail } from '../../parts/ids.tsx';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { Addresses, deliveryColumns, deliveryId } from '../job/delivery-columns.tsx';
import { RedeliverButton } from '../job/redeliver-button.tsx';
import { useEndpoints } from './endpoints.tsx';

type Webhook = Schemas['ListedWebhook'];

const filterOptions = [
  ['', 'All'],
  ['failing', 'last attempt failed'],
  ['waiting', 'waiting'],
  ['delivering', 'delivering'],
  ['delivered', 'delivered'],
  ['gone', 'gone (410)'],
  ['failed', 'failed, no more attempts'],
] as const;
const refreshMs = 3000;

const columns: Column<Webhook>[] = [
  {
    title: 'Job',
    cell: ({ jobId }) => (
      <Link href={`/jobs/${jobId}`}>
        <IdTail id={jobId} />
      </Link>
    ),
  },
  ...deliveryColumns,
  {
    title: 'Action',
    cell: ({ jobId, event, step, state, endpointId }) =>
      event !== 'started' && (
        <RedeliverButton
          jobIds={[jobId]}
          step={step}
          isRunning={state === 'waiting'}
          endpointId={endpointId}
        />
      ),
  },
];

type Filter = (typeof filterOptions)[number][0];

function useWebhooks(state: Filter) {
  return usePages({
    queryKey: ['timeline', 'webhooks', state],
    read: (cursor) => {
      const query = { ...(state && { state }), limit: 100, ...cursor };
      return unwrap(api.GET('/api/v1/webhooks/deliveries', { params: { query } }));
    },
    // The event stream does not report deliveries, so the list is polled while one is in progress.
    refreshMs: (items) => items.some((item) => item.state === 'delivering') && refreshMs,
  });
}

/**
 * Shows the addresses of webhooks, and the webhooks of jobs with a filter by delivery state. `denial`
 * is the reason why the user may not see the webhook endpoints, or null.
 */
export function Deliveries({ denial }: { denial: string | null }) {
  const [filter, setFilter] = useState<Filter>('');
  const webhooks = useWebhooks(filter);
  const failing = useWebhooks('failing');
  const latest = useWebhooks('');
  const all = [...(failing.items ?? []), ...(latest.items ?? [])];
  return (
    <>
      <Addresses
        endpoints={useEndpoints(denial)}
        webhooks={[...new Map(all.map((item) => [deliveryId(item), item])).values()].filter(
          ({ endpointId }) => endpointId === null,
        )}
        renderAction={(jobIds) => (
          <RedeliverButton jobIds={jobIds}>{`Redeliver all ${jobIds.length}`}</RedeliverButton>
        )}
      />
      <Panel
        title="Deliveries"
        columns={columns}
        {...webhooks}
        rowId={deliveryId}
        empty={filter === '' ? 'No webhooks yet' : 'No deliveries match'}
        emptyHint={
          <>
            Jobs send a webhook to the <code>webhookUrl</code> of their request or, without one, to
            each endpoint that chose the event.
          </>
        }
      >
        <SelectField
          label="State"
          className="check"
          options={filterOptions}
          value={filter}
          change={setFilter}
        />
      </Panel>
    </>
  );
}
