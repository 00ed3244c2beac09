/** Usage records: jobs and chats with their credits, newest first. */
import { useState } from 'react';
import { Link } from 'wouter';
import { unwrap, api, type Schemas } from '../../gateway/client.ts';
import { usePages } from '../../gateway/pages.ts';
import { Credits } from '../../parts/amounts.tsx';
import { SelectField, allOption, toOptions } from '../../parts/fields.tsx';
import { formatType } from '../../parts/names.ts';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';

type UsageRecord = Schemas['UsageRecord'];

const states = ['reserved', 'charged', 'released'] as const;
const pageSize = 20;

const columns: Column<UsageRecord>[] = [
  { title: 'Time', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
  {
    title: 'Type',
    cell: ({ id, jobId, type }) => (
      <Link href={jobId === undefined ? `/requests/${id}` : `/jobs/${jobId}`}>
        {formatType(type)}
      </Link>
    ),
  },
  { title: 'Model', cell: ({ model }) => model ?? '–' },
  { title: 'Billing', cell: ({ status }) => <State name={status} /> },
  {
    title: 'Input / output tokens',
    isNumber: true,
    cell: ({ inputTokens, outputTokens = 0 }) =>
      inputTokens === undefined ? '–' : `${inputTokens} / ${outputTokens}`,
  },
  { title: 'Credits', isNumber: true, cell: ({ credits }) => <Credits amount={credits} /> },
];

/** Shows the usage records of jobs and chats. */
export function UsageRecords() {
  const [status, setStatus] = useState<(typeof states)[number] | ''>('');
  const records = usePages({
    queryKey: ['usage', 'records', status],
    async read(cursor) {
      const query = { limit: pageSize, ...(status && { status }), ...cursor };
      const { usage, nextCursor } = await unwrap(api.GET('/api/v1/usage', { params: { query } }));
      return { data: usage, nextCursor };
    },
  });
  return (
    <Panel title="Records" columns={columns} {...records} rowId={({ id }) => id} empty="No records">
      <SelectField
        label="Billing"
        className="check"
        options={[allOption, ...toOptions(states)]}
        value={status}
        change={setStatus}
      />
    </Panel>
  );
}
