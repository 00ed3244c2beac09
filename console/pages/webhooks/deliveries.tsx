/** The webhooks of jobs, newest job first. */
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { answered, api, type Schemas } from '../../gateway/client.ts';
import { Empty, Loading, Refusal } from '../../parts/states.tsx';
import { Ago, State } from '../../parts/values.tsx';
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
    // No event tells of deliveries: while one is on its way its state is asked for.
    refetchInterval: ({ state }) => (state.data?.pages.some(isMoving) ? 3000 : false),
  });
  const webhooks = data?.pages.flatMap((page) => page.data);
  if (error) return <Refusal error={error} />;
  if (!webhooks) return <Loading />;
  if (webhooks.length === 0) {
    return (
      <Empty title={filter === '' ? 'No webhooks yet' : 'None in this state'}>
        A job whose request has a <code>webhookUrl</code> tells it when it ends.
      </Empty>
    );
  }
  return (
    <>
      {/* oxlint-disable-next-line no-noninteractive-tabindex -- what scrolls can be reached by keys */}
      <div className="scroll" tabIndex={0} role="region" aria-label="Deliveries">
        <table>
          <thead>
            <tr>
              {['Job', 'URL', 'State', 'Attempts', 'Last answer', 'Changed'].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
              <th scope="col">Again</th>
            </tr>
          </thead>
          <tbody>
            {webhooks.map((webhook) => (
              <Line key={webhook.jobId} webhook={webhook} />
            ))}
          </tbody>
        </table>
      </div>
      {hasNextPage && (
        <button type="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {isFetchingNextPage ? 'Loading…' : 'Show older ones'}
        </button>
      )}
    </>
  );
}

/** Whether something on a page is about to change. */
const isMoving = ({ data }: { data: readonly Webhook[] }): boolean =>
  data.some(({ state }) => state === 'delivering');

function Line({ webhook }: { webhook: Webhook }) {
  const { jobId, url, state, attempts, lastStatus, lastError, nextAttemptAt, updatedAt } = webhook;
  const client = useQueryClient();
  const redeliver = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/api/v1/studio/jobs/{jobId}/webhook/redeliver', { params: { path: { jobId } } }),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: listKey }),
  });
  return (
    <tr data-job={jobId}>
      <td aria-label={jobId}>
        <Link href={`/jobs/${jobId}`}>
          <code>{jobId.slice(0, 16)}…</code>
        </Link>
      </td>
      <td className="url">{url}</td>
      <td>
        <State of={state} />
      </td>
      <td className="number">{attempts}</td>
      <td>
        {lastStatus ?? lastError ?? '–'}
        {nextAttemptAt && state !== 'delivered' && (
          <span className="dim">
            {' '}
            · next <Ago at={nextAttemptAt} />
          </span>
        )}
      </td>
      <td className="dim">
        <Ago at={updatedAt} />
      </td>
      <td>
        <Again state={state} isPending={redeliver.isPending} ask={() => redeliver.mutate()} />
        <Refusal error={redeliver.error} />
      </td>
    </tr>
  );
}

interface AgainProps {
  state: Webhook['state'];
  isPending: boolean;
  ask: () => void;
}

function Again({ state, isPending, ask }: AgainProps) {
  const isEarly = state === 'waiting';
  return (
    <button
      type="button"
      disabled={isPending || isEarly}
      title={isEarly ? 'The job has not ended yet.' : undefined}
      onClick={ask}
    >
      {isPending ? 'Sending…' : 'Deliver again'}
    </button>
  );
}
