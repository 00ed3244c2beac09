/** The webhooks of jobs, newest job first. */
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';
import { Table, type TableRow } from '../../parts/table.tsx';
import { Ago, State, Tail } from '../../parts/values.tsx';
import type { DeliveryFilter } from './webhooks.tsx';

type Webhook = Schemas['ListedWebhook'];

const listKey = ['timeline', 'webhooks'];

/** Lists deliveries. */
export function DeliveryList({ filter }: { filter: DeliveryFilter }) {
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: [...listKey, filter],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: cursor }) =>
      answered(
        api.GET('/api/v1/webhooks/deliveries', {
          params: { query: { ...(filter && { state: filter }), ...(cursor && { cursor }) } },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => nextCursor,
    // The event stream has no deliveries, so the list is read again while one is in progress.
    refetchInterval: ({ state }) => (state.data?.pages.some(isMoving) ? 3000 : false),
  });
  const webhooks = data?.pages.flatMap((page) => page.data);
  if (error) return <Refusal error={error} />;
  if (!webhooks) return <Loading />;
  if (webhooks.length === 0) {
    return (
      <Empty title={filter === '' ? 'No webhooks yet' : 'No deliveries match'}>
        Jobs whose request has a <code>webhookUrl</code> send a webhook when they end.
      </Empty>
    );
  }
  return (
    <>
      <Table
        label="Deliveries"
        columns={['Job', 'URL', 'State', 'Attempts', 'Last response', 'Updated', 'Action']}
        rows={webhooks.map(rowOf)}
      />
      {hasNextPage && (
        <button type="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {isFetchingNextPage ? 'Loading…' : 'Show more'}
        </button>
      )}
    </>
  );
}

/** Returns whether a page has a delivery in progress. */
const isMoving = ({ data }: { data: readonly Webhook[] }): boolean =>
  data.some(({ state }) => state === 'delivering');

function rowOf(webhook: Webhook): TableRow {
  const { jobId, url, state, attempts, lastStatus, lastError, nextAttemptAt, updatedAt } = webhook;
  return {
    id: jobId,
    attributes: { 'data-job': jobId },
    cells: [
      <Link key="job" href={`/jobs/${jobId}`}>
        <Tail of={jobId} />
      </Link>,
      <span key="url" className="url">
        {url}
      </span>,
      <State key="state" of={state} />,
      attempts,
      <>
        {lastStatus ?? lastError ?? '–'}
        {nextAttemptAt && state !== 'delivered' && (
          <span className="dim">
            {' '}
            · retry <Ago at={nextAttemptAt} />
          </span>
        )}
      </>,
      <Ago key="updated" at={updatedAt} />,
      <Again key="again" jobId={jobId} state={state} />,
    ],
  };
}

function Again({ jobId, state }: Pick<Webhook, 'jobId' | 'state'>) {
  const client = useQueryClient();
  const { isPending, error, mutate } = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/api/v1/studio/jobs/{jobId}/webhook/redeliver', { params: { path: { jobId } } }),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: listKey }),
  });
  const isEarly = state === 'waiting';
  return (
    <>
      <button
        type="button"
        disabled={isPending || isEarly}
        title={isEarly ? 'The job has not ended yet.' : undefined}
        onClick={() => mutate()}
      >
        {isPending ? 'Sending…' : 'Deliver again'}
      </button>
      <Refusal error={error} />
    </>
  );
}
