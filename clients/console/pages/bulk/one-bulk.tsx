/** Page of a bulk job: progress, forecast, results as they arrive, and failed items. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api, requestJson, unwrap, type Schemas } from '../../gateway/client.ts';
import { formatAmount } from '../../parts/amounts.tsx';
import { toWords } from '../../parts/names.ts';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import type { Column } from '../../parts/table.tsx';
import { formatDuration } from '../../parts/times.tsx';
import { showToast } from '../../parts/toast.tsx';
import { listMedia } from '../job/job-media.ts';
import { AwaitingItems } from './awaiting-items.tsx';

type BulkJob = Schemas['BulkJob'];
type Item = Schemas['BulkItem'];

const refreshMs = 2000;
/** Number of results and of failed items that the page shows. */
const shownMax = 100;

/** Shows the page of a bulk job. */
export default function OneBulk({ bulkId }: { bulkId: string }) {
  const { data, error } = useQuery({
    queryKey: ['bulk', bulkId],
    queryFn: () =>
      unwrap(api.GET('/api/v1/studio/bulk/{bulkId}', { params: { path: { bulkId } } })),
    refetchInterval: ({ state }) => (state.data?.data.done ? false : refreshMs),
  });
  if (!data) return error ? <ErrorMessage error={error} /> : <Loading />;
  const bulk = data.data;
  return (
    <>
      <p className="back">
        <Link href="/bulk">← Bulk</Link>
      </p>
      <div className="head">
        <h1>{bulk.metadata['name'] ?? 'Bulk job'}</h1>
        <State name={bulk.status} />
        <Actions bulk={bulk} />
      </div>
      <div className="stack">
        <Progress bulk={bulk} />
        <Awaiting bulk={bulk} />
        <Results bulk={bulk} />
        <Answers bulk={bulk} />
        <FailedItems bulk={bulk} />
      </div>
    </>
  );
}

function Actions({ bulk: { bulkId, status, done, counts } }: { bulk: BulkJob }) {
  const client = useQueryClient();
  const act = useMutation({
    mutationFn: (verb: string) =>
      requestJson(`/api/v1/studio/bulk/${bulkId}/${verb}`, { method: 'POST', body: {} }),
    onSuccess: (_, verb) => showToast(`Bulk job: ${verb} requested`),
    onSettled: () => client.invalidateQueries({ queryKey: ['bulk'] }),
  });
  const verbs = [
    ...(status === 'in_progress' ? ['pause'] : []),
    ...(status === 'paused' || status === 'stopped' ? ['resume'] : []),
    ...(counts.failed > 0 && done ? ['retry'] : []),
    ...(done ? [] : ['cancel']),
  ];
  const labels: Record<string, string> = { retry: 'Retry failed' };
  return (
    <div className="row">
      <a className="button" href={`/api/v1/studio/bulk/${bulkId}/results`} download>
        Results as NDJSON
      </a>
      <a
        className="button"
        href={`/api/v1/studio/bulk/${bulkId}/results?format=csv&bom=true`}
        download
      >
        Results as CSV
      </a>
      {verbs.map((verb) => (
        <button
          key={verb}
          type="button"
          className={verb === 'cancel' ? 'danger' : undefined}
          disabled={act.isPending}
          onClick={() => act.mutate(verb)}
        >
          {labels[verb] ?? verb.charAt(0).toUpperCase() + verb.slice(1)}
        </button>
      ))}
      <ErrorMessage error={act.error} />
    </div>
  );
}

const parts = ['completed', 'failed', 'running', 'awaiting', 'waiting', 'canceled'] as const;

function Progress({ bulk: { done, counts, credits, etaSeconds, stopReason } }: { bulk: BulkJob }) {
  const { charged, reserved, forecast, maxCredits } = credits;
  const amounts = [
    `${formatAmount(charged)} credits charged`,
    !done && `${formatAmount(reserved)} reserved`,
    !done && forecast !== null && `${formatAmount(forecast)} expected`,
    maxCredits !== null && `at most ${formatAmount(maxCredits)}`,
  ];
  return (
    <section className="card stack" aria-label="Progress">
      <div className="bulk-bar" aria-hidden="true">
        {parts.map((name) => (
          <span key={name} data-part={name} style={{ flexGrow: counts[name] }} />
        ))}
      </div>
      <p>
        {parts
          .filter((name) => counts[name] > 0)
          .map((name) => `${counts[name]} ${name}`)
          .join(' · ')}{' '}
        of {counts.total}
        {etaSeconds !== null &&
          etaSeconds > 0 &&
          ` · about ${formatDuration(etaSeconds * 1000)} left`}
      </p>
      <p>{amounts.filter(Boolean).join(', ')}</p>
      {stopReason !== null && <p className="wrong">{toWords(stopReason).toLowerCase()}</p>}
    </section>
  );
}

function useItems(
  { bulkId, counts }: BulkJob,
  state: 'completed' | 'failed' | 'awaiting_approval',
) {
  const count = counts[state === 'awaiting_approval' ? 'awaiting' : state];
  return useQuery({
    // The items are read again when their number changes.
    queryKey: ['bulk', bulkId, state, count],
    queryFn: () =>
      unwrap(
        api.GET('/api/v1/studio/bulk/{bulkId}/items', {
          params: { path: { bulkId }, query: { state, limit: shownMax } },
        }),
      ),
    placeholderData: (last) => last,
  });
}

function Awaiting({ bulk }: { bulk: BulkJob }) {
  const { data } = useItems(bulk, 'awaiting_approval');
  return <AwaitingItems bulkId={bulk.bulkId} items={data?.data ?? []} />;
}

function Results({ bulk }: { bulk: BulkJob }) {
  const { data } = useItems(bulk, 'completed');
  const media = (data?.data ?? []).flatMap(({ jobId, data: result }) =>
    listMedia({ result })
      .slice(0, 1)
      .map((file) => ({ jobId, ...file })),
  );
  if (media.length === 0) return null;
  return (
    <ul className="wall" aria-label="Results">
      {media.map(({ jobId, url, kind }) => (
        <li key={url.split('?')[0]}>
          <Link href={`/jobs/${jobId}`} aria-label={`Job ${jobId}`}>
            {kind === 'image' ? <img src={url} alt="" loading="lazy" /> : <span>{kind}</span>}
          </Link>
        </li>
      ))}
    </ul>
  );
}

const answerColumns: Column<Item>[] = [
  { title: 'Item', cell: ({ id, index }) => id ?? index },
  { title: 'Endpoint', cell: ({ use }) => use },
  { title: 'Answer', cell: ({ text }) => <span dir="auto">{text}</span> },
  {
    title: 'Tokens',
    isNumber: true,
    cell: ({ tokens }) => tokens && tokens.input + tokens.output,
  },
];

/** Shows the answers of chats. */
function Answers({ bulk }: { bulk: BulkJob }) {
  const { data, error } = useItems(bulk, 'completed');
  const answered = (data?.data ?? []).filter(({ text }) => text !== null);
  return (
    <Panel
      title="Answers"
      columns={answerColumns}
      items={answered}
      rowId={({ index }) => String(index)}
      error={error}
    />
  );
}

const columns: Column<Item>[] = [
  { title: 'Item', cell: ({ id, index }) => id ?? index },
  { title: 'Endpoint', cell: ({ use }) => use },
  { title: 'Reason', cell: ({ error }) => error?.message },
  { title: 'Job', cell: ({ jobId }) => jobId && <Link href={`/jobs/${jobId}`}>Open</Link> },
];

function FailedItems({ bulk }: { bulk: BulkJob }) {
  const { data, error } = useItems(bulk, 'failed');
  return (
    <Panel
      title="Failed items"
      columns={columns}
      items={data?.data}
      rowId={({ index }) => String(index)}
      error={error}
    />
  );
}
