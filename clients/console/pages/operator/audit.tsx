/** Shows the last audit of the ledger, and a button that runs a new audit. */
import { useQuery } from '@tanstack/react-query';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';
import { State } from '../../parts/state.tsx';
import { Empty, ErrorMessage } from '../../parts/states.tsx';
import { RelativeTime } from '../../parts/times.tsx';

const refreshMs = 30_000;

/** Shows when the last audit ran, and the results of an audit that the operator runs. */
export function Audit() {
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ['operator-audit'],
    queryFn: () => unwrap(operatorApi.GET('/api/admin/v1/audit')),
    // An audit writes its result, so it runs only when the operator requests it.
    enabled: false,
  });
  const lastAudit = useQuery({
    queryKey: ['operator', 'audit'],
    queryFn: () => unwrap(operatorApi.GET('/api/admin/v1/audit/last')),
    refetchInterval: refreshMs,
  });
  const runAudit = async (): Promise<void> => {
    await refetch();
    await lastAudit.refetch();
  };
  const violated = data?.checks.filter(({ found }) => found > 0) ?? [];
  return (
    <section className="card stack" aria-label="Audit">
      <div className="head">
        <h2>Audit</h2>
        {data && <State name={data.clean ? 'clean' : 'not clean'} />}
        <button type="button" disabled={isFetching} onClick={() => void runAudit()}>
          {isFetching ? 'Running…' : 'Run audit'}
        </button>
      </div>
      <ErrorMessage error={error} />
      {lastAudit.data?.data.length === 0 && <p>Last audit: never</p>}
      {lastAudit.data?.data.map((audit) => (
        <LastAudit key={audit.scope} audit={audit} />
      ))}
      {!data && (
        <p className="dim">
          Compares the changes since the last audit with jobs and chats. A worker compares all rows
          each day.
        </p>
      )}
      {data?.clean && <Empty title="No findings">All {data.checks.length} checks passed.</Empty>}
      {violated.map(({ name, found }) => (
        <Finding
          key={name}
          name={name}
          count={found}
          records={data?.findings.filter(({ finding }) => finding === name) ?? []}
        />
      ))}
      {data && (
        <details>
          <summary>Checks</summary>
          <ul>
            {data.checks.map(({ name, examined, found }) => (
              <li key={name}>
                {name}: {examined ?? 'all'} examined, {found} violations
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

interface LastAuditProps {
  audit: { scope: 'changes' | 'all'; findings: number; entries: number; finishedAt: string };
}

function LastAudit({ audit: { scope, findings, entries, finishedAt } }: LastAuditProps) {
  return (
    <p className={findings === 0 ? undefined : 'wrong'}>
      Last audit of {scope === 'all' ? 'all rows' : 'the changes'}:{' '}
      <RelativeTime time={finishedAt} />, {entries.toLocaleString()} ledger entries,{' '}
      {findings.toLocaleString()} {findings === 1 ? 'finding' : 'findings'}
    </p>
  );
}

interface FindingProps {
  name: string;
  count: number;
  /** Ids of the records that violate the check. The API lists only a limited number of them. */
  records: readonly { subject: string }[];
}

function Finding({ name, count, records }: FindingProps) {
  return (
    <details open={count <= 10}>
      <summary>
        {count.toLocaleString()} × {name}
      </summary>
      <ul>
        {records.map(({ subject: id }) => (
          <li key={id}>
            <code>{id}</code>
          </li>
        ))}
      </ul>
      {count > records.length && (
        <p className="hint">Only the first {records.length} records are shown.</p>
      )}
    </details>
  );
}
