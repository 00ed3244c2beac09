/** Providers with their recent calls, and buttons to pause and resume them. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { formatShare } from '../../parts/amounts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime, formatDuration } from '../../parts/times.tsx';
import { OperatorAction } from './operator-action.tsx';
import { Sparkline } from './sparkline.tsx';

type Provider = OperatorSchemas['ProviderWithFigures'];

const refreshMs = 30_000;

/** Query for all configured providers, including their pauses and recent calls. */
export const providersQuery = queryOptions({
  queryKey: ['operator', 'providers'],
  queryFn: () => unwrap(operatorApi.GET('/api/admin/v1/providers')),
});

const columns: Column<Provider>[] = [
  { title: 'Provider', cell: ({ provider }) => <strong>{provider}</strong> },
  { title: 'State', cell: ({ paused }) => <ProviderState paused={paused} /> },
  {
    title: 'Open calls',
    cell: ({ open, waiting }) => (
      <>
        {open}
        {waiting > 0 && <span className="dim"> · {waiting} waiting</span>}
      </>
    ),
  },
  {
    title: 'Ended calls',
    cell: ({ recent, trend }) => (
      <>
        {formatCalls(recent)}
        <Sparkline
          label="Calls in each 5 minutes"
          bars={trend.map(({ calls, failed }) => ({ value: calls, failed }))}
        />
      </>
    ),
  },
  {
    title: 'Median duration',
    cell: ({ recent, trend }) => (
      <>
        {formatSeconds(recent.medianSeconds)}
        <Sparkline
          label="Median seconds in each 5 minutes"
          bars={trend.map(({ medianSeconds }) => ({ value: medianSeconds ?? 0, failed: 0 }))}
        />
      </>
    ),
  },
  { title: 'p95 duration', cell: ({ recent }) => formatSeconds(recent.slowSeconds) },
  { title: 'Actions', cell: (provider) => <ProviderAction {...provider} /> },
];

/** Shows the providers. */
export function Providers() {
  const { data, error } = useQuery({ ...providersQuery, refetchInterval: refreshMs });
  return (
    <Panel
      title="Providers"
      columns={columns}
      items={data?.data}
      rowId={({ provider }) => provider}
      error={error}
      empty="No provider is configured"
    >
      <p className="hint">Calls of the last hour; the charts show each 5 minutes.</p>
    </Panel>
  );
}

function formatCalls({ calls, failed }: Provider['recent']): string {
  return calls === 0 ? 'no calls' : `${calls}, ${failed} failed (${formatShare(failed / calls)})`;
}

const formatSeconds = (seconds: number | null): string =>
  seconds === null ? '–' : formatDuration(seconds * 1000);

function ProviderState({ paused }: Pick<Provider, 'paused'>) {
  if (!paused) return <State name="active" />;
  return (
    <>
      <State name="paused" />
      <p className="dim">
        by {paused.actor}, <RelativeTime time={paused.since} />: {paused.reason}
      </p>
    </>
  );
}

function ProviderAction({ provider, paused }: Provider) {
  const path = `/providers/${provider}`;
  if (paused) {
    return (
      <OperatorAction verb="Resume" title={`Resume ${provider}`} path={`${path}/resume`}>
        <p>Jobs that are waiting for this provider continue immediately.</p>
      </OperatorAction>
    );
  }
  return (
    <OperatorAction verb="Pause" title={`Pause ${provider}`} isDangerous path={`${path}/pause`}>
      <p>
        No new calls are sent to this provider until you resume it. Jobs wait until their deadlines.
      </p>
    </OperatorAction>
  );
}
