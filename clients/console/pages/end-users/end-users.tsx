/** Page of the end users of the organization: what they spend, and their limits. */
import { useQuery } from '@tanstack/react-query';
import { unwrap, api } from '../../gateway/client.ts';
import { usePages } from '../../gateway/pages.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { Credits } from '../../parts/amounts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import { Empty } from '../../parts/states.tsx';
import type { Column } from '../../parts/table.tsx';
import { formatLimit } from '../keys/limit-fields.tsx';
import { Spending } from '../keys/spending.tsx';
import {
  allOthers,
  DefaultsButton,
  endUsersKey,
  LimitsButton,
  NewLimitsButton,
  RevokeTokensButton,
  SuspendButton,
  type EndUser,
} from './end-user-actions.tsx';

/** End user of the table. Its limits are unknown while their page of the list is not loaded. */
interface Row {
  id: string;
  spent: number;
  limits: EndUser | undefined;
}

/** Returns the first instant of the current month in UTC. */
const monthStart = (): string => `${new Date().toISOString().slice(0, 7)}-01T00:00:00Z`;

/** Shows the page of end users. */
export default function EndUsers() {
  const denial = useSessionKey().explainDenial('usage:read');
  return (
    <>
      <div className="head">
        <h1>End users</h1>
        <div>{denial === null && <NewLimitsButton />}</div>
      </div>
      {denial === null ? <EndUserTable /> : <Empty title="End users">{denial}</Empty>}
    </>
  );
}

const columns: Column<Row>[] = [
  { title: 'End user', sortValue: ({ id }) => id, cell: (row) => <Name {...row} /> },
  {
    title: 'This month',
    isNumber: true,
    sortValue: ({ spent }) => spent,
    cell: ({ id, spent }) => (id === allOthers ? '–' : <Credits amount={spent} />),
  },
  {
    title: 'Limit',
    sortValue: ({ limits }) => limits?.budget?.used ?? 0,
    cell: ({ limits }) => limits && <Limit {...limits} />,
  },
  {
    title: 'Jobs and chats a minute',
    isNumber: true,
    cell: ({ limits }) => limits && (limits.rateLimit ?? 'No limit'),
  },
  { title: 'Actions', cell: ({ id, limits }) => <Actions id={id} limits={limits} /> },
];

function EndUserTable() {
  const { items, error, ...pages } = usePages<EndUser>({
    queryKey: [...endUsersKey, 'list'],
    read: (query) =>
      unwrap(api.GET('/api/v1/end-users', { params: { query: { limit: 200, ...query } } })),
  });
  const { data: others } = useQuery({
    queryKey: [...endUsersKey, allOthers],
    queryFn: () =>
      unwrap(api.GET('/api/v1/end-users/{endUser}', { params: { path: { endUser: allOthers } } })),
  });
  const query = { groupBy: 'endUser', after: monthStart() };
  const summary = useQuery({
    queryKey: ['usage', 'summary', query],
    queryFn: () => unwrap(api.GET('/api/v1/usage/summary', { params: { query } })),
  });
  const sums = summary.data?.rows;
  return (
    <Panel
      title="Spend and limits"
      columns={columns}
      items={items && sums && others && listRows(items, sums, others.data)}
      rowId={({ id }) => id}
      error={error ?? summary.error}
      {...pages}
    />
  );
}

/** Returns the default limits, and then the end users by what they have spent. */
function listRows(
  listed: readonly EndUser[],
  sums: readonly { endUser?: string | null; credits: number }[],
  others: EndUser,
): Row[] {
  const rows = new Map<string, Row>();
  for (const { endUser: id, credits: spent } of sums)
    if (id != null) rows.set(id, { id, spent, limits: undefined });
  for (const limits of listed)
    rows.set(limits.endUser, {
      id: limits.endUser,
      spent: rows.get(limits.endUser)?.spent ?? 0,
      limits,
    });
  const bySpend = [...rows.values()].toSorted((one, other) => other.spent - one.spent);
  return [{ id: allOthers, spent: 0, limits: others }, ...bySpend];
}

function Name({ id, limits }: Row) {
  return (
    <>
      <strong className="end-user">{id === allOthers ? 'All others' : id}</strong>{' '}
      {limits?.suspended && <State name="suspended" />}
      {id === allOthers && (
        <span className="hint block">End users without limits of their own</span>
      )}
    </>
  );
}

function Limit({ endUser, limit, budget, inherited }: EndUser) {
  if (!limit) return 'No credit limit';
  if (endUser === allOthers) return formatLimit(limit);
  return (
    <>
      <Spending apiKey={{ name: endUser, limit, budget }} />
      {inherited.includes('limit') && <span className="hint block">The limit of all others</span>}
    </>
  );
}

function Actions({ id, limits }: Pick<Row, 'id' | 'limits'>) {
  return (
    <div className="row">
      <LimitsButton endUser={id} limits={limits} />
      <SuspendButton endUser={id} limits={limits} />
      {id !== allOthers && <DefaultsButton endUser={id} limits={limits} />}
      {id !== allOthers && <RevokeTokensButton endUser={id} />}
    </div>
  );
}
