/** Health: providers, and whether the ledger agrees with everything that moves it. */
import { useQuery } from '@tanstack/react-query';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { Empty, Refusal } from '../../parts/states.tsx';
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
      heads={['Provider', 'State', 'Open calls', 'Last 15 minutes', 'Median', '95 %', 'Do']}
      rows={data?.data.map((each) => (
        <Provider key={each.provider} of={each} />
      ))}
      error={error}
      none="No provider is configured"
    />
  );
}

const secondsText = (seconds: number | null): string =>
  seconds === null ? '–' : durationText(seconds * 1000);

function Provider({ of }: { of: OperatorSchemas['ProviderWithFigures'] }) {
  const { provider, paused, waiting, open, recent } = of;
  const { calls, failed, medianSeconds, slowSeconds } = recent;
  const share = calls === 0 ? 0 : Math.round((failed / calls) * 100);
  return (
    <tr data-provider={provider}>
      <th scope="row">{provider}</th>
      <td>
        <State of={paused ? 'paused' : 'active'} />
        {paused && (
          <p className="dim">
            by {paused.actor}, <Ago at={paused.since} />: {paused.reason}
          </p>
        )}
      </td>
      <td>
        {open}
        {waiting > 0 && <span className="dim"> · {waiting} wait</span>}
      </td>
      <td>{calls === 0 ? 'no calls' : `${calls} ended, ${failed} failed (${share} %)`}</td>
      <td>{secondsText(medianSeconds)}</td>
      <td>{secondsText(slowSeconds)}</td>
      <td>{paused ? <Resume provider={provider} /> : <Pause provider={provider} />}</td>
    </tr>
  );
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
      <p>It is sent nothing until it is resumed. Jobs for it wait, up to their deadlines.</p>
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
    // It reads the whole ledger: when it is asked for.
    enabled: false,
  });
  return (
    <section className="card stack" aria-label="Audit">
      <div className="head">
        <h2>Audit</h2>
        {data && <State of={data.clean ? 'clean' : 'not clean'} />}
        <button type="button" disabled={isFetching} onClick={() => void refetch()}>
          {isFetching ? 'Comparing…' : 'Compare now'}
        </button>
      </div>
      <Refusal error={error} />
      {!data && (
        <p className="dim">Compares the ledger with all jobs and chats. This can take a minute.</p>
      )}
      {data?.clean && (
        <Empty title="Nothing was found">
          All {data.checks.length} promises hold of everything there is.
        </Empty>
      )}
      {data && data.findings.length > 0 && (
        <ul>
          {data.findings.map(({ finding, subject }) => (
            <li key={finding + subject}>
              {finding}: <code>{subject}</code>
            </li>
          ))}
        </ul>
      )}
      {data && (
        <details>
          <summary>Check</summary>
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
