/** Overview of the gateway for operators: linked numbers, worst first, providers, queues and audit. */
import { useQuery } from '@tanstack/react-query';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { formatAmount, formatShare } from '../../parts/amounts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import type { Column } from '../../parts/table.tsx';
import { formatDuration } from '../../parts/times.tsx';
import { Audit } from './audit.tsx';
import { Providers } from './providers.tsx';
import { Tiles, toTemporalList, type Tile } from './tiles.tsx';

type Figures = OperatorSchemas['Overview'];
type ChatProvider = Figures['chatProviders'][number];
type Queue = NonNullable<Figures['queues']>[number];

const refreshMs = 10_000;
/** Age of a backlog or a webhook from which it counts as a problem, in seconds. */
const lateSeconds = 60;

/** Shows the overview. */
export function Overview() {
  const { data, error } = useQuery({
    queryKey: ['operator', 'overview'],
    queryFn: () => unwrap(operatorApi.GET('/api/admin/v1/overview')),
    refetchInterval: refreshMs,
  });
  if (!data) return error ? <ErrorMessage error={error} /> : <Loading />;
  const { chatProviders, queues } = data.data;
  return (
    <div className="stack">
      <Tiles tiles={listTiles(data.data)} />
      <Providers />
      <Panel
        title="Chat providers"
        columns={chatColumns}
        items={chatProviders}
        rowId={({ provider }) => provider}
        error={null}
        empty="No chats in the last hour"
      />
      <Panel
        title="Task queues"
        columns={queueColumns}
        items={queues ?? []}
        rowId={({ name, task }) => `${name} ${task}`}
        error={null}
        empty="Temporal cannot be reached"
      />
      <Audit />
    </div>
  );
}

const oldest = (seconds: number): string =>
  seconds > 0 ? `oldest ${formatDuration(seconds * 1000)}` : 'nothing waits';

function describeWorkers(queues: Figures['queues'], href: string | null): Tile {
  const workers = queues && Math.min(...queues.map((queue) => queue.workers));
  const backlogSeconds = Math.max(0, ...(queues ?? []).map((queue) => queue.backlogAgeSeconds));
  const noBacklog = 'on each queue, no backlog';
  const backlog = `backlog of ${formatDuration(backlogSeconds * 1000)}`;
  return {
    name: 'Workers',
    value: workers === null ? '?' : String(workers),
    hint:
      workers === null ? 'Temporal cannot be reached' : backlogSeconds > 0 ? backlog : noBacklog,
    href,
    isBad: !workers || backlogSeconds > lateSeconds,
  };
}

function listTiles({
  jobs,
  bulks,
  chats,
  webhooks,
  credits,
  queues,
  temporalUiUrl,
}: Figures): Tile[] {
  const running = toTemporalList(temporalUiUrl, 'ExecutionStatus = "Running"');
  const failed = 'ExecutionStatus != "Running" AND ErrorCode IS NOT NULL';
  return [
    ...[
      ['Past deadline', jobs.overdue, 'open jobs', '/operator/jobs'] as const,
      ['Being verified', jobs.verifying, 'outcome unknown', '/operator/jobs'] as const,
      ['Unknown outcomes', jobs.unknown, 'released', '/operator/jobs'] as const,
    ].map(([name, count, hint, href]) => ({
      name,
      value: String(count),
      hint,
      href,
      isBad: count > 0,
    })),
    describeWorkers(queues, running),
    {
      name: 'Open webhooks',
      value: String(webhooks.open),
      hint: oldest(webhooks.oldestSeconds),
      href: null,
      isBad: webhooks.oldestSeconds > lateSeconds,
    },
    {
      name: 'Open jobs',
      value: String(jobs.open),
      hint: oldest(jobs.oldestSeconds),
      href: '/operator/jobs?status=open',
      isBad: false,
    },
    {
      name: 'Bulk jobs',
      value: String(bulks.open),
      hint: bulks.hanging > 0 ? `${bulks.hanging} hang` : `${bulks.paused} paused`,
      href: '/operator/jobs',
      isBad: bulks.hanging > 0,
    },
    {
      name: 'Open chats',
      value: String(chats.open),
      hint: oldest(chats.oldestSeconds),
      href: null,
      isBad: false,
    },
    {
      name: 'Failed workflows',
      value: '↗',
      hint: 'in the Temporal UI',
      href: toTemporalList(temporalUiUrl, failed),
      isBad: false,
    },
    {
      name: 'Credits reserved',
      value: formatAmount(credits.reserved),
      hint: `${formatAmount(credits.spentToday)} spent today`,
      href: null,
      isBad: false,
    },
  ];
}

const formatSeconds = (seconds: number | null): string =>
  seconds === null ? '–' : formatDuration(seconds * 1000);

const chatColumns: Column<ChatProvider>[] = [
  { title: 'Provider', cell: ({ provider }) => <strong>{provider}</strong> },
  { title: 'Chats in the last hour', isNumber: true, cell: ({ calls }) => calls },
  {
    title: 'Failed',
    isNumber: true,
    cell: ({ failed, calls }) => (
      <span className={failed > 0 ? 'wrong' : undefined}>
        {failed} ({formatShare(failed / calls)})
      </span>
    ),
  },
  {
    title: 'Median duration',
    isNumber: true,
    cell: ({ medianSeconds }) => formatSeconds(medianSeconds),
  },
];

const queueColumns: Column<Queue>[] = [
  {
    title: 'Queue',
    cell: ({ name, task }) => (
      <>
        {name} <span className="dim">{task}</span>
      </>
    ),
  },
  {
    title: 'Workers',
    isNumber: true,
    cell: ({ workers }) => <span className={workers === 0 ? 'wrong' : undefined}>{workers}</span>,
  },
  { title: 'Waiting tasks', isNumber: true, cell: ({ backlog }) => backlog },
  {
    title: 'Oldest',
    isNumber: true,
    cell: ({ backlogAgeSeconds }) => formatSeconds(backlogAgeSeconds),
  },
];
