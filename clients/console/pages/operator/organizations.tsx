/** Page of organizations, with a form to create one. */
import { useState } from 'react';
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { usePages } from '../../gateway/pages.ts';
import { Credits, formatAmount } from '../../parts/amounts.tsx';
import { TextField } from '../../parts/fields.tsx';
import { Panel } from '../../parts/panel.tsx';
import { useDebounced } from '../../parts/debounced.ts';
import { State } from '../../parts/state.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { OrganizationLink } from './links.tsx';
import { OperatorAction } from './operator-action.tsx';

type Organization = OperatorSchemas['Organization'];

const columns: Column<Organization>[] = [
  {
    title: 'Name',
    cell: ({ organizationId, name }) => <OrganizationLink id={organizationId} name={name} />,
  },
  { title: 'State', cell: ({ status }) => <State name={status} /> },
  {
    title: 'Available',
    isNumber: true,
    cell: ({ balance }) => <Credits amount={balance.available} />,
  },
  {
    title: 'Reserved',
    isNumber: true,
    cell: ({ balance }) => <Credits amount={balance.reserved} />,
  },
  { title: '6-hour window', isNumber: true, cell: ({ window }) => formatWindow(window) },
  { title: 'Created', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
];

/** Shows the page of organizations. */
export function Organizations() {
  const [name, setName] = useState('');
  const searchedName = useDebounced(name.trim(), 400);
  const organizations = usePages({
    queryKey: ['operator', 'organizations', searchedName],
    read: (cursor) =>
      unwrap(
        operatorApi.GET('/api/admin/v1/organizations', {
          params: { query: { ...(searchedName && { name: searchedName }), ...cursor } },
        }),
      ),
  });
  return (
    <Panel
      title="Organizations"
      columns={columns}
      {...organizations}
      rowId={({ organizationId }) => organizationId}
      empty={name === '' ? 'No organizations yet' : 'No organizations match'}
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

const formatWindow = ({ used, limit }: Organization['window']): string =>
  limit === null ? formatAmount(used) : `${formatAmount(used)} of ${formatAmount(limit)}`;

function NewOrganization() {
  return (
    <OperatorAction
      verb="Create"
      title="New organization"
      path="/organizations"
      body={(read) => ({
        name: read('name'),
        windowAllowanceCredits: read('limit') === '' ? null : Number(read('limit')),
      })}
    >
      <TextField label="Name" name="name" required maxLength={200} />
      <TextField
        label="Limit of Studio credits per 6 hours"
        hint="leave empty for no limit"
        name="limit"
        type="number"
        min={0}
        step="any"
      />
    </OperatorAction>
  );
}
