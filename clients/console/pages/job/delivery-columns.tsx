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
  {
    title: 'Event',
    cell: ({ event, step }) => (step === null ? event : `${step} awaits approval`),
  },
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

const isGivenUp = ({ state }: Webhook): boolean => state === 'failed' || state === 'gone';

/** Webhooks to one address: the newest, and those that were not delivered, newest first. */
interface Address {
  url: string;
  newest: Webhook;
  failing: readonly Webhook[];
}

/** Returns the button that delivers the webhooks of ended jobs again. */
type RenderAction = (jobIds: readonly string[]) => ReactNode;

const listAddressColumns = (renderAction: RenderAction): Column<Address>[] => [
  { title: 'Address', cell: ({ url }) => <span className="url">{url}</span> },
  {
    title: 'Health',
    cell: ({ newest, failing }) => (
      <State name={failing.length > 0 ? `${failing.length} failing` : newest.state} />
    ),
  },
  {
    title: 'Failing since',
    cell: ({ failing }) =>
      failing
        .slice(-1)
        .map(({ jobId, createdAt }) => <RelativeTime key={jobId} time={createdAt} />),
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

interface AddressesProps {
  /** Latest webhooks, and those whose last attempt failed. */
  webhooks: readonly Webhook[];
  renderAction: RenderAction;
}

/** Shows each address with its health, the worst first, or nothing without webhooks. */
export function Addresses({ webhooks, renderAction }: AddressesProps) {
  const newestFirst = webhooks.toSorted((one, other) => (one.jobId < other.jobId ? 1 : -1));
  const byUrl = Map.groupBy(newestFirst, ({ url }) => url);
  const addresses = [...byUrl].flatMap(([url, all]): Address[] => {
    const failing = all.filter((webhook) => isFailing(webhook) || isGivenUp(webhook));
    return all.slice(0, 1).map((newest) => ({ url, newest, failing }));
  });
  return (
    <Panel
      title="Addresses"
      columns={listAddressColumns(renderAction)}
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
