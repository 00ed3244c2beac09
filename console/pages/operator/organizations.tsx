/** The organizations, and the form of a new one. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { answered } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { useSettled } from '../../parts/settled.ts';
import type { TableRow } from '../../parts/table.tsx';
import { Credits, Moment, State } from '../../parts/values.tsx';
import { OrganizationLink } from './links.tsx';
import { ReasonedAction } from './reasoned-action.tsx';
import { Panel } from './panel.tsx';

const number = (title: string) => ({ title, isNumber: true });
const columns = [
  'Name',
  'State',
  number('Available'),
  number('Reserved'),
  number('6-hour window'),
  'Created',
];

/** Lists the organizations. */
export function Organizations() {
  const [name, setName] = useState('');
  const searched = useSettled(name.trim(), 400);
  const { data, error, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ['operator', 'organizations', searched],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: cursor }) =>
      answered(
        operatorApi.GET('/api/admin/v1/organizations', {
          params: { query: { ...(searched && { name: searched }), ...(cursor && { cursor }) } },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => nextCursor,
  });
  return (
    <Panel
      title="Organizations"
      columns={columns}
      rows={data?.pages.flatMap((page) => page.data.map(rowOf))}
      error={error}
      none={name === '' ? 'No organizations yet' : 'No organizations match'}
      more={hasNextPage ? () => void fetchNextPage() : null}
    >
      <input
        type="search"
        className="narrow"
        aria-label="Search organizations"
        placeholder="Search by name"
        value={name}
        onChange={({ target }) => setName(target.value)}
      />
      <NewOrganization />
    </Panel>
  );
}

function rowOf(organization: OperatorSchemas['Organization']): TableRow {
  const { organizationId, name, status, balance, window, createdAt } = organization;
  return {
    id: organizationId,
    cells: [
      <OrganizationLink key="name" id={organizationId} name={name} />,
      <State key="state" of={status} />,
      <Credits key="available" amount={balance.available} />,
      <Credits key="reserved" amount={balance.reserved} />,
      <>
        <Credits amount={window.used} />
        {window.limit !== null && (
          <span className="dim">
            {' of '}
            <Credits amount={window.limit} />
          </span>
        )}
      </>,
      <Moment key="created" at={createdAt} />,
    ],
  };
}

function NewOrganization() {
  const [name, setName] = useState('');
  const [allowance, setAllowance] = useState('');
  const create = async (reason: string): Promise<void> => {
    const windowAllowanceCredits = allowance === '' ? null : Number(allowance);
    const body = { name, reason, windowAllowanceCredits };
    await answered(operatorApi.POST('/api/admin/v1/organizations', { body }));
    setName('');
  };
  return (
    <ReasonedAction verb="Create" title="New organization" act={create}>
      <label>
        Name
        <input
          required
          maxLength={200}
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
      </label>
      <label>
        <span>
          Studio credits per 6 hours <span className="hint">empty: no limit</span>
        </span>
        <input
          type="number"
          min={0}
          step="any"
          value={allowance}
          onChange={({ target }) => setAllowance(target.value)}
        />
      </label>
    </ReasonedAction>
  );
}
