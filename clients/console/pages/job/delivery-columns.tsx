/** Webhooks by delivery and by address, as callers and operators see them. */
import type { ReactNode } from 'react';
import type { Schemas } from '../../gateway/client.ts';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';

type Webhook = Schemas['ListedWebhook'];

/** Columns that describe the delivery of a webhook. */
export const deliveryColumns: readonly Column<Webhook>[] = [
  { title: 'Event', cell: ({ event }) => event },
  { title: 'URL', cell: ({ url }) => <span className="url">{url}</span> },
  {
    title: 'State',
    cell: (webhook) => <State name={isFailing(webhook) ? 'failing' : webhook.state} />,
  },
  { title: 'Attempts', cell: ({ attempts }) => attempts },
  { title: 'Last response', cell: (webhook) => <LastResponse {...webhook} /> },
  { title: 'Updated', cell: ({ updatedAt }) => <RelativeTime time={updatedAt} /> },
];

/** Returns whether the last attempt failed, and another one follows. */
const isFailing = ({ state, lastStatus, lastError }: Webhook): boolean =>
  state === 'delivering' && (lastStatus !== null || lastError !== null);

/** Webhooks to one address: the newest, and those that were not delivered, newest first. */
interface Address<Item> {
  url: string;
  newest: Item;
  failing: readonly Item[];
}

interface AddressesProps<Item> {
  /** Latest webhooks, and those whose last attempt failed. */
  webhooks: readonly Item[];
  /** Button that delivers the webhooks of ended jobs again. */
  renderAction: (jobIds: readonly string[]) => ReactNode;
}

/** Shows each address with its health, the worst first, or nothing without webhooks. */
export function Addresses<Item extends Webhook>(props: AddressesProps<Item>) {
  const { webhooks, renderAction } = props;
  const byUrl = Map.groupBy(webhooks, ({ url }) => url);
  const addresses = [...byUrl].flatMap(([url, [newest, ...older]]): Address<Item>[] => {
    if (!newest) return [];
    const isOpen = (item: Item) => isFailing(item) || ['failed', 'gone'].includes(item.state);
    return [{ url, newest, failing: [newest, ...older].filter(isOpen) }];
  });
  const columns: Column<Address<Item>>[] = [
    { title: 'Address', cell: ({ url }) => <span className="url">{url}</span> },
    {
      title: 'Health',
      cell: ({ newest, failing }) => (
        <State name={failing.length > 0 ? `${failing.length} failing` : newest.state} />
      ),
    },
    {
      title: 'Failing since',
      cell: ({ failing }) => {
        const oldest = failing.at(-1);
        return oldest && <RelativeTime time={oldest.createdAt} />;
      },
    },
    { title: 'Last response', cell: ({ newest }) => <LastResponse {...newest} /> },
    {
      title: 'Action',
      cell: ({ failing }) => {
        const ended = failing.filter(({ event }) => event === 'ended');
        return ended.length > 1 && renderAction(ended.map(({ jobId }) => jobId));
      },
    },
  ];
  return (
    <Panel
      title="Addresses"
      columns={columns}
      items={addresses.toSorted((one, other) => other.failing.length - one.failing.length)}
      rowId={({ url }) => url}
      error={null}
    />
  );
}

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
