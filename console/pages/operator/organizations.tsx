/** The organizations, and a new one. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { answered } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';
import { Credits, Moment, State } from '../../parts/values.tsx';
import { ReasonedAction } from './reasoned-action.tsx';
import { Panel } from './panel.tsx';

/** Lists the organizations. */
export function Organizations() {
  const { data, error, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ['operator', 'organizations'],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam: cursor }) =>
      answered(
        operatorApi.GET('/api/admin/v1/organizations', {
          params: { query: { ...(cursor && { cursor }) } },
        }),
      ),
    getNextPageParam: ({ nextCursor }) => nextCursor,
  });
  return (
    <div className="stack">
      <Panel
        title="Organizations"
        heads={['Name', 'State', 'Available', 'Reserved', 'In six hours', 'Made']}
        rows={data?.pages.flatMap((page) =>
          page.data.map(({ organizationId, name, status, balance, window, createdAt }) => (
            <tr key={organizationId}>
              <th scope="row">
                <Link href={`/operator/organizations/${organizationId}`}>{name}</Link>
              </th>
              <td>
                <State of={status} />
              </td>
              <td>
                <Credits amount={balance.available} />
              </td>
              <td>
                <Credits amount={balance.reserved} />
              </td>
              <td>
                <Credits amount={window.used} />
                {window.limit !== null && (
                  <span className="dim">
                    {' of '}
                    <Credits amount={window.limit} />
                  </span>
                )}
              </td>
              <td>
                <Moment at={createdAt} />
              </td>
            </tr>
          )),
        )}
        error={error}
        none="No organizations yet"
      >
        <NewOrganization />
      </Panel>
      {hasNextPage && (
        <button type="button" onClick={() => void fetchNextPage()}>
          Show older ones
        </button>
      )}
    </div>
  );
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
          Studio credits in six hours <span className="hint">empty: no limit</span>
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
