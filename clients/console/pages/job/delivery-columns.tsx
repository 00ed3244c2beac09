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

/** Returns the id of a webhook in a list: the id of its job, with what makes the webhook another one. */
export const deliveryId = ({ jobId, event, step, endpointId }: Webhook): string =>
  [jobId, event === 'ended' ? null : event, step, endpointId].filter(Boolean).join('-');

/** Returns whether the last attempt failed, and another one follows. */
const isFailing = ({ state, lastStatus, lastError }: Webhook): boolean =>
  state === 'delivering' && (lastStatus !== null || lastError !== null);

const isFailed = (webhook: Webhook): boolean =>
  isFailing(webhook) || webhook.state === 'failed' || webhook.state === 'gone';

/** Result of the last attempt. */
type LastAttempt = Pick<Webhook, 'lastStatus' | 'lastError' | 'nextAttemptAt' | 'state'>;

/** Address that receives webhooks: a webhook endpoint, or the URL of requests. */
export interface Address {
  id: string;
  url: string;
  about?: ReactNode;
  health: string;
  failingSince: string | null;
  last: LastAttempt;
  action: ReactNode;
}

const addressColumns: readonly Column<Address>[] = [
  {
    title: 'Address',
    cell: ({ url, about }) => (
      <>
        <span className="url">{url}</span>
        {about}
      </>
    ),
  },
  { title: 'Health', cell: ({ health }) => <State name={health} /> },
  {
    title: 'Failing since',
    cell: ({ failingSince }) => failingSince && <RelativeTime time={failingSince} />,
  },
  { title: 'Last response', cell: ({ last }) => <LastResponse {...last} /> },
  { title: 'Action', cell: ({ action }) => action },
];

interface AddressesProps {
  /** Latest webhooks, and those whose last attempt failed. */
  webhooks: readonly Webhook[];
  /** Webhook endpoints, which come first. */
  endpoints?: readonly Address[];
  /** Returns the button that delivers the webhooks of ended jobs again. */
  renderAction: (jobIds: readonly string[]) => ReactNode;
}

/** Shows each address with its health, the worst first, or nothing without any. */
export function Addresses({ webhooks, endpoints = [], renderAction }: AddressesProps) {
  const newestFirst = webhooks.toSorted((one, other) => (one.jobId < other.jobId ? 1 : -1));
  const addresses = [...Map.groupBy(newestFirst, ({ url }) => url)]
    .map(([url, all]) => ({ url, all, failing: all.filter(isFailed) }))
    .toSorted((one, other) => other.failing.length - one.failing.length)
    .flatMap(({ url, all, failing }): Address[] => {
      const ended = failing.filter(({ event }) => event === 'ended').map(({ jobId }) => jobId);
      return all.slice(0, 1).map((last) => ({
        id: url,
        url,
        health: failing.length > 0 ? `${failing.length} failing` : last.state,
        failingSince: failing.at(-1)?.createdAt ?? null,
        last,
        action: ended.length > 1 && renderAction(ended),
      }));
    });
  return (
    <Panel
      title="Addresses"
      columns={addressColumns}
      items={[...endpoints, ...addresses]}
      rowId={({ id }) => id}
      error={null}
    />
  );
}

function LastResponse({ lastStatus, lastError, nextAttemptAt, state }: LastAttempt) {
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
