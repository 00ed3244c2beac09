/** Health: providers, and the audit of the ledger. */
import { useQuery } from '@tanstack/react-query';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Empty, Refusal } from '../../parts/states.tsx';
import type { TableRow } from '../../parts/table.tsx';
import { Ago, State, durationText } from '../../parts/values.tsx';
import { ReasonedAction } from './reasoned-action.tsx';
import { Panel } from './panel.tsx';

const refreshMs = 10_000;

/** Shows the health of the gateway. */
export function Health() {
  return (
    <div className="stack">
      <Providers />
      <Audit />
    </div>
  );
}

function Providers() {
  const { data, error } = useQuery({
    queryKey: ['operator', 'providers'],
    queryFn: () => answered(operatorApi.GET('/api/admin/v1/providers')),
    refetchInterval: refreshMs,
  });
  return (
    <Panel
      title="Providers"
      columns={['Provider', 'State', 'Open calls', 'Last 15 minutes', 'Median', '95 %', 'Actions']}
      rows={data?.data.map(rowOf)}
      error={error}
      none="No provider is configured"
    />
  );
}

const secondsText = (seconds: number | null): string =>
  seconds === null ? '–' : durationText(seconds * 1000);

function rowOf(line: OperatorSchemas['ProviderWithFigures']): TableRow {
  const { provider, paused, waiting, open, recent } = line;
  const { calls, failed, medianSeconds, slowSeconds } = recent;
  const share = calls === 0 ? 0 : Math.round((failed / calls) * 100);
  return {
    id: provider,
    attributes: { 'data-provider': provider },
    cells: [
      <strong key="name">{provider}</strong>,
      <>
        <State of={paused ? 'paused' : 'active'} />
        {paused && (
          <p className="dim">
            by {paused.actor}, <Ago at={paused.since} />: {paused.reason}
          </p>
        )}
      </>,
      <>
        {open}
        {waiting > 0 && <span className="dim"> · {waiting} waiting</span>}
      </>,
      calls === 0 ? 'no calls' : `${calls} ended, ${failed} failed (${share} %)`,
      secondsText(medianSeconds),
      secondsText(slowSeconds),
      paused ? <Resume provider={provider} /> : <Pause provider={provider} />,
    ],
  };
}

function Pause({ provider }: { provider: string }) {
  const params = { path: { provider } };
  return (
    <ReasonedAction
      verb="Pause"
      title={`Pause ${provider}`}
      isDangerous
      act={(reason) =>
        answered(
          operatorApi.POST('/api/admin/v1/providers/{provider}/pause', {
            params,
            body: { reason },
          }),
        )
      }
    >
      <p>No calls are sent to it until it is resumed. Its jobs wait until their deadlines.</p>
    </ReasonedAction>
  );
}

function Resume({ provider }: { provider: string }) {
  const params = { path: { provider } };
  return (
    <ReasonedAction
      verb="Resume"
      title={`Resume ${provider}`}
      act={(reason) =>
        answered(
          operatorApi.POST('/api/admin/v1/providers/{provider}/resume', {
            params,
            body: { reason },
          }),
        )
      }
    >
      <p>Jobs that wait for it continue immediately.</p>
    </ReasonedAction>
  );
}

function Audit() {
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ['operator-audit'],
    queryFn: () => answered(operatorApi.GET('/api/admin/v1/audit')),
    // The audit reads the whole ledger, so it runs only on request.
    enabled: false,
  });
  return (
    <section className="card stack" aria-label="Audit">
      <div className="head">
        <h2>Audit</h2>
        {data && <State of={data.clean ? 'clean' : 'not clean'} />}
        <button type="button" disabled={isFetching} onClick={() => void refetch()}>
          {isFetching ? 'Running…' : 'Run audit'}
        </button>
      </div>
      <Refusal error={error} />
      {!data && (
        <p className="dim">Compares the ledger with all jobs and chats. This can take a minute.</p>
      )}
      {data?.clean && <Empty title="No findings">All {data.checks.length} checks passed.</Empty>}
      {data?.checks
        .filter(({ found }) => found > 0)
        .map(({ name, found }) => (
          <Finding
            key={name}
            name={name}
            count={found}
            subjects={data.findings.filter(({ finding }) => finding === name)}
          />
        ))}
      {data && (
        <details>
          <summary>Checks</summary>
          <ul>
            {data.checks.map(({ name, examined, found }) => (
              <li key={name}>
                {name}: {examined ?? 'all'} examined, {found} found
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

/** Number of subjects that are shown of each finding. */
const subjectsShownMax = 100;

interface FindingProps {
  name: string;
  count: number;
  subjects: readonly { subject: string }[];
}

function Finding({ name, count, subjects }: FindingProps) {
  return (
    <details open={count <= 10}>
      <summary>
        {count.toLocaleString()} × {name}
      </summary>
      <ul>
        {subjects.slice(0, subjectsShownMax).map(({ subject }) => (
          <li key={subject}>
            <code>{subject}</code>
          </li>
        ))}
      </ul>
      {count > subjectsShownMax && <p className="hint">The first {subjectsShownMax} are shown.</p>}
    </details>
  );
}
