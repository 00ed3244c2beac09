/** Columns that the tables of webhooks share, for callers and operators. */
import type { Schemas } from '../../gateway/client.ts';
import { State } from '../../parts/state.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';

type Webhook = Schemas['ListedWebhook'];

/** Columns that describe the delivery of a webhook. */
export const deliveryColumns: readonly Column<Webhook>[] = [
  { title: 'Event', cell: ({ event }) => event },
  { title: 'URL', cell: ({ url }) => <span className="url">{url}</span> },
  { title: 'State', cell: ({ state }) => <State name={state} /> },
  { title: 'Attempts', cell: ({ attempts }) => attempts },
  { title: 'Last response', cell: (webhook) => <LastResponse {...webhook} /> },
  { title: 'Updated', cell: ({ updatedAt }) => <RelativeTime time={updatedAt} /> },
];

function LastResponse({ lastStatus, lastError, nextAttemptAt, state }: Webhook) {
  return (
    <>
      {lastStatus ?? lastError ?? '–'}
      {nextAttemptAt && state !== 'delivered' && (
        <span className="dim">
          {' '}
          · retry <RelativeTime time={nextAttemptAt} />
        </span>
      )}
    </>
  );
}
