/** Bulk page: starts a bulk job from a file, with a preview of its price, and lists bulk jobs. */
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState, type SubmitEvent } from 'react';
import { Link, useLocation } from 'wouter';
import { api, newRequestKey, unwrap, type Schemas } from '../../gateway/client.ts';
import { usePages } from '../../gateway/pages.ts';
import { Credits, MostCredits } from '../../parts/amounts.tsx';
import { TextField } from '../../parts/fields.tsx';
import { IdTail } from '../../parts/ids.tsx';
import { Panel } from '../../parts/panel.tsx';
import { State } from '../../parts/state.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import type { Column } from '../../parts/table.tsx';
import { RelativeTime } from '../../parts/times.tsx';
import { readItems, type Item } from './items-file.ts';

const previewRows = 5;

const columns: Column<Schemas['BulkJob']>[] = [
  {
    title: 'Bulk job',
    cell: ({ bulkId }) => (
      <Link href={`/bulk/${bulkId}`}>
        <IdTail id={bulkId} />
      </Link>
    ),
  },
  { title: 'State', cell: ({ status }) => <State name={status} /> },
  {
    title: 'Items',
    isNumber: true,
    cell: ({ counts }) => `${counts.completed + counts.failed} of ${counts.total}`,
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
        <StartForm />
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

function StartForm() {
  const [, navigate] = useLocation();
  const [items, setItems] = useState<Item[]>([]);
  const [maxCredits, setMaxCredits] = useState('');
  const [idempotencyKey] = useState(newRequestKey);
  const read = useMutation({ mutationFn: readItems, onSuccess: setItems });
  const { data, error } = useQuery({
    queryKey: ['bulk-estimate', items],
    queryFn: () => unwrap(api.POST('/api/v1/studio/bulk/estimate', { body: { items } })),
    enabled: items.length > 0,
  });
  const start = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST('/api/v1/studio/bulk', {
          params: { header: { 'Idempotency-Key': idempotencyKey } },
          body: { items, ...(maxCredits !== '' && { maxCredits: Number(maxCredits) }) },
        }),
      ),
    onSuccess: (started) => navigate(`/bulk/${started.data.bulkId}`),
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    start.mutate();
  };
  return (
    <form className="card stack" aria-label="New bulk job" onSubmit={submit}>
      <h2>New bulk job</h2>
      <TextField
        label="File"
        hint="CSV with the columns use, prompt, …, or NDJSON with one item a line"
        type="file"
        accept=".csv,.ndjson,.jsonl,.json,text/csv"
        onInput={({ currentTarget }) => {
          const [file] = currentTarget.files ?? [];
          if (file) read.mutate(file);
        }}
      />
      <ErrorMessage error={read.error ?? error ?? start.error} />
      <Preview items={items} />
      {data && (
        <>
          <TextField
            label="Maximum credits"
            hint="the bulk job stops before it charges more"
            type="number"
            min={0}
            step="any"
            value={maxCredits}
            change={setMaxCredits}
          />
          <div className="price">
            <p>
              {data.data.items} items, <MostCredits credits={data.data.credits} />
            </p>
            <button type="submit" className="primary" disabled={start.isPending}>
              {start.isPending ? 'Starting…' : 'Start'}
            </button>
          </div>
        </>
      )}
    </form>
  );
}

function Preview({ items }: { items: readonly Item[] }) {
  return (
    <ol className="preview" aria-label="First items">
      {items.slice(0, previewRows).map((item, index) => (
        <li key={index}>
          <code>{JSON.stringify(item)}</code>
        </li>
      ))}
    </ol>
  );
}
