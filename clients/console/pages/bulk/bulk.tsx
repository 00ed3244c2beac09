/** Bulk page: starts a bulk job from a file, and lists bulk jobs. */
import { Link } from 'wouter';
import { api, unwrap, type Schemas } from '../../gateway/client.ts';
import { usePages } from '../../gateway/pages.ts';
import { Credits } from '../../parts/amounts.tsx';
import { IdTail } from '../../parts/ids.tsx';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { BulkForm } from './bulk-form.tsx';

const columns: Column<Schemas['BulkJob']>[] = [
  {
    title: 'Bulk job',
    cell: ({ bulkId, metadata }) => (
      <Link href={`/bulk/${bulkId}`}>{metadata['name'] ?? <IdTail id={bulkId} />}</Link>
    ),
  },
  { title: 'State', cell: ({ status }) => <State name={status} /> },
  {
    title: 'Items',
    isNumber: true,
    cell: ({ counts }) =>
      `${counts.completed + counts.failed + counts.canceled} of ${counts.total}`,
  },
  { title: 'Failed', isNumber: true, cell: ({ counts }) => counts.failed },
  { title: 'Credits', isNumber: true, cell: ({ credits }) => <Credits amount={credits.charged} /> },
  { title: 'Created', cell: ({ createdAt }) => <RelativeTime time={createdAt} /> },
];

/** Shows the bulk page. */
export default function Bulk() {
  const bulks = usePages({
    queryKey: ['bulk'],
    read: (cursor) => unwrap(api.GET('/api/v1/studio/bulk', { params: { query: cursor } })),
    refreshMs: (items) => (items.some(({ done }) => !done) ? 3000 : false),
  });
  return (
    <>
      <div className="head">
        <h1>Bulk</h1>
      </div>
      <div className="stack">
        <BulkForm />
        <Panel
          title="Bulk jobs"
          columns={columns}
          {...bulks}
          rowId={({ bulkId }) => bulkId}
          empty="No bulk jobs yet"
          emptyHint="Choose a file with up to 10,000 requests above."
        />
      </div>
    </>
  );
}
