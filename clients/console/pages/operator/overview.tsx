/** Overview of the gateway for operators: linked numbers, worst first, providers, queues and audit. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { formatAmount, formatShare } from '../../parts/amounts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import type { Column } from '../../parts/table.tsx';
import { formatDuration } from '../../parts/times.tsx';
import { Audit } from './audit.tsx';
import { Providers } from './providers.tsx';

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
      <ul className="tiles" aria-label="Figures">
        {listTiles(data.data)
          .toSorted((one, other) => Number(other.isBad) - Number(one.isBad))
          .map((tile) => (
            <li key={tile.name} className={tile.isBad ? 'bad' : undefined}>
              <TileLink {...tile} />
            </li>
          ))}
      </ul>
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

interface Tile {
  name: string;
  value: string;
  hint: string;
  href: string | null;
  isBad: boolean;
}

const oldest = (seconds: number): string =>
  seconds > 0 ? `oldest ${formatDuration(seconds * 1000)}` : 'nothing waits';

function listTiles({ jobs, chats, webhooks, credits, queues, temporalUiUrl }: Figures): Tile[] {
  const workers = queues && Math.min(...queues.map((queue) => queue.workers));
  const backlogSeconds = Math.max(0, ...(queues ?? []).map((queue) => queue.backlogAgeSeconds));
  const failed = `${temporalUiUrl}?query=${encodeURIComponent('ExecutionStatus != "Running" AND ErrorCode IS NOT NULL')}`;
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
    {
      name: 'Workers',
      value: workers === null ? '?' : String(workers),
      hint:
        workers === null
          ? 'Temporal cannot be reached'
          : backlogSeconds > 0
            ? `backlog of ${formatDuration(backlogSeconds * 1000)}`
            : 'on each queue, no backlog',
      href: temporalUiUrl,
      isBad: !workers || backlogSeconds > lateSeconds,
    },
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
      href: temporalUiUrl && failed,
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

function TileLink({ name, value, hint, href }: Tile) {
  const content = (
    <>
      <span className="dim">{name}</span>
      <strong>{value}</strong>
      <span className="hint">{hint}</span>
    </>
  );
  if (href === null) return <span className="tile">{content}</span>;
  return href.startsWith('/') ? (
    <Link className="tile" href={href}>
      {content}
    </Link>
  ) : (
    <a className="tile" href={href} target="_blank" rel="noreferrer">
      {content}
    </a>
  );
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
