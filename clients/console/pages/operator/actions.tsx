/** Actions: the recorded actions of operators, newest first. */
import { unwrap } from '../../gateway/client.ts';
import { operatorApi, type OperatorSchemas } from '../../gateway/operator.ts';
import { usePages } from '../../gateway/pages.ts';
import { IdTail } from '../../parts/ids.tsx';
import { toWords } from '../../parts/names.ts';
import { Panel } from '../../parts/panel.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { JobLink, OrganizationLink } from './links.tsx';

const columns: Column<OperatorSchemas['Action']>[] = [
  { title: 'Time', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
  { title: 'Operator', cell: ({ actor }) => actor },
  { title: 'Action', cell: ({ action }) => toWords(action) },
  { title: 'Target', cell: ({ subject }) => <Target id={subject} /> },
  { title: 'Reason', cell: ({ reason }) => reason },
];

/** Shows the actions of operators. */
export function Actions() {
  const actions = usePages({
    queryKey: ['operator', 'actions'],
    read: ({ cursor }) =>
      unwrap(
        operatorApi.GET('/api/admin/v1/actions', {
          params: { query: { ...(cursor && { cursor: Number(cursor) }) } },
        }),
      ),
  });
  return (
    <Panel
      title="Actions"
      columns={columns}
      {...actions}
      rowId={({ id }) => String(id)}
      empty="No actions yet"
      emptyHint="Each action of an operator is recorded here with its reason."
    />
  );
}

function Target({ id }: { id: string }) {
  if (id.startsWith('job_')) return <JobLink id={id} />;
  if (id.startsWith('org_')) return <OrganizationLink id={id} />;
  return id.includes('_') ? <IdTail id={id} /> : <code>{id}</code>;
}
