/** Overview of the gateway for operators: what needs attention, linked numbers, providers, queues and audit. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { formatAmount, formatShare } from '../../parts/amounts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import type { Column } from '../../parts/table.tsx';
import { formatDuration } from '../../parts/times.tsx';
import { Audit } from './audit.tsx';
import { Providers } from './providers.tsx';
import { Tiles, toTemporalList, type Tile } from '../../parts/tiles.tsx';

type Figures = OperatorSchemas['Overview'];
type ChatProvider = Figures['chatProviders'][number];
type Queue = NonNullable<Figures['queues']>[number];

const refreshMs = 10_000;

/** Shows the overview. */
export function Overview() {
  const { data, error } = useQuery({
    queryKey: ['operator', 'overview'],
    queryFn: () => unwrap(operatorApi.GET('/api/admin/v1/overview')),
    refetchInterval: refreshMs,
  });
  const { data: readiness } = useQuery({
    queryKey: ['operator', 'readiness'],
    // A process that is not ready responds with status 503 and the same body.
    queryFn: async (): Promise<Readiness> => (await fetch('/readyz')).json(),
    refetchInterval: refreshMs,
  });
  const servers = readiness ? listServers(readiness) : [];
  if (!data) {
    return (
      <div className="stack">
        {error ? <ErrorMessage error={error} /> : <Loading />}
        <Tiles tiles={servers} />
      </div>
    );
  }
  const { attention, chatProviders, queues } = data.data;
  return (
    <div className="stack">
      <ErrorMessage error={error} />
      <Attention attention={attention} />
      <Tiles tiles={[...listTiles(data.data), ...servers]} />
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

/** Pages on which an operator acts on a condition. The others are about this page. */
const pageByAlert: Record<string, string> = {
  ReservationStuck: '/operator/jobs',
  JobsOverdue: '/operator/jobs',
  BulkJobHangs: '/operator/jobs',
  OutcomeUnknown: '/operator/jobs',
  CallerWebhooksFail: '/operator/webhooks',
};

function Attention({ attention }: Pick<Figures, 'attention'>) {
  if (attention.length === 0) {
    return (
      <p>
        <State name="clean" /> Nothing needs attention.{' '}
        <span className="dim">No condition of an alert that the gateway can check is true.</span>
      </p>
    );
  }
  return (
    <section className="card stack" aria-label="Needs attention">
      <h2>Needs attention</h2>
      <ul className="stack">
        {attention.map(({ alert, severity, message, runbook, runbookUrl }) => (
          <li key={message} className="row">
            <State name={severity} />
            {pageByAlert[alert] ? <Link href={pageByAlert[alert]}>{message}</Link> : message}
            <code className="dim">{alert}</code>
            {runbookUrl ? (
              <a href={runbookUrl} target="_blank" rel="noreferrer">
                Runbook
              </a>
            ) : (
              <code className="dim">docs/runbooks/{runbook}</code>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** State of the API process that answered, and of the servers that it needs. */
interface Readiness {
  checks: Record<string, boolean>;
  milliseconds: Record<string, number>;
}

const listServers = ({ checks, milliseconds }: Readiness): Tile[] =>
  (['Postgres', 'Temporal'] as const).map((name) => {
    const key = name.toLowerCase();
    const isUsable = checks[key] ?? false;
    return {
      name,
      value: isUsable ? formatDuration(milliseconds[key] ?? 0) : 'Away',
      hint: isUsable ? 'reachable' : 'cannot be reached',
      href: `${location.origin}/readyz`,
      isBad: !isUsable,
    };
  });

const oldest = (seconds: number): string =>
  seconds > 0 ? `oldest ${formatDuration(seconds * 1000)}` : 'nothing waits';

function describeQueues(queues: Figures['queues']): string {
  if (queues === null) return 'Temporal cannot be reached';
  const backlogSeconds = Math.max(0, ...queues.map((queue) => queue.backlogAgeSeconds));
  if (backlogSeconds === 0) return 'on each queue, no backlog';
  return `backlog of ${formatDuration(backlogSeconds * 1000)}`;
}

function listTiles(figures: Figures): Tile[] {
  const { attention, jobs, bulks, chats, webhooks, credits, queues, temporalUiUrl } = figures;
  const isFiring = (...alerts: string[]): boolean =>
    attention.some(({ alert }) => alerts.includes(alert));
  const toTemporal = (query: string): string | null => toTemporalList(temporalUiUrl, query);
  const failed = 'ExecutionStatus != "Running" AND ErrorCode IS NOT NULL';
  const workers = queues ? Math.min(...queues.map((queue) => queue.workers)) : '?';
  const running = 'ExecutionStatus = "Running"';
  const allJobs = '/operator/jobs';
  const failing = '/operator/webhooks';
  const spent = formatAmount(credits.spentToday);
  const isLate = isFiring('JobsOverdue', 'ReservationStuck');
  const unknownHint = `in the last hour, ${jobs.unknown} in all`;
  const webhooksHint = `${webhooks.open} open, ${oldest(webhooks.oldestSeconds)}`;
  const bulksHint = bulks.hanging > 0 ? `${bulks.hanging} hang` : `${bulks.paused} paused`;
  const areWorkersBad = queues === null || isFiring('NobodyPolls', 'Backlog');
  const rows: readonly (readonly [string, string | number, string, (string | null)?, boolean?])[] =
    [
      ['Past deadline', jobs.overdue, 'open jobs', allJobs, isLate],
      ['Being verified', jobs.verifying, 'outcome unknown', allJobs],
      ['Unknown outcomes', jobs.unknownLastHour, unknownHint, allJobs, isFiring('OutcomeUnknown')],
      ['Workers', workers, describeQueues(queues), toTemporal(running), areWorkersBad],
      ['Failing webhooks', webhooks.failing, webhooksHint, failing, isFiring('CallerWebhooksFail')],
      ['Open jobs', jobs.open, oldest(jobs.oldestSeconds), `${allJobs}?status=open`],
      ['Bulk jobs', bulks.open, bulksHint, allJobs, isFiring('BulkJobHangs')],
      [
        'Open chats',
        chats.open,
        oldest(chats.oldestSeconds),
        null,
        isFiring('ChatReservationStuck'),
      ],
      ['Failed workflows', '↗', 'in the Temporal UI', toTemporal(failed)],
      ['Credits reserved', formatAmount(credits.reserved), `${spent} spent today`],
    ];
  return rows.map(([name, value, hint, href, isBad]) => ({ name, value, hint, href, isBad }));
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
