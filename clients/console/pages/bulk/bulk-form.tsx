/** Form that starts a bulk job from a file, after a check of its rows and of its price. */
import { useMutation, useQuery, useQueryClient, type QueryClient } from '@tanstack/react-query';
import { useState, type SubmitEvent } from 'react';
import { useLocation } from 'wouter';
import {
  buildItemsBody,
  describeSkipped,
  findRowError,
  listChatSchemas,
  listItems,
  readItemsFile,
  type ApiDescription,
  type ItemsFile,
  type RowError,
} from '../../../items/items-file.ts';
import type { RequestSchema } from '../../../items/cell-values.ts';
import { ApiError, newRequestKey, requestJson, type Schemas } from '../../gateway/client.ts';
import { MostCredits } from '../../parts/amounts.tsx';
import { TextField } from '../../parts/fields.tsx';
import { ErrorMessage, Loading } from '../../parts/states.tsx';
import { studioPath } from '../playground/capability.ts';
import { capabilitiesQuery } from '../playground/capabilities-query.ts';
import { ItemsTable } from './items-table.tsx';

const path = '/api/v1/studio/bulk';
/** Encoding of a file that is not Unicode: the one that Excel writes in Western Europe. */
const otherEncoding = 'windows-1252';

/** File that was read, with the key of the request that starts it. */
interface ReadFile {
  file: ItemsFile;
  idempotencyKey: string;
}

/** Estimate of the valid rows, and the errors of the others. */
interface Check {
  items: number;
  invalid: number;
  credits: number;
  errors: RowError[];
}

async function readSchemas(client: QueryClient) {
  const { data } = await client.ensureQueryData(capabilitiesQuery);
  const described = await requestJson<ApiDescription>('/api/v1/openapi.json');
  return new Map<string, RequestSchema>([
    ...data.map((capability) => [studioPath(capability), capability.request] as const),
    ...listChatSchemas(described),
  ]);
}

/** Shows the form. */
export function BulkForm() {
  const client = useQueryClient();
  const [name, setName] = useState('');
  const read = useMutation({
    mutationFn: async (chosen: File): Promise<ReadFile> => {
      const bytes = new Uint8Array(await chosen.arrayBuffer());
      const file = await readItemsFile(bytes, {
        readSchemas: () => readSchemas(client),
        otherEncoding,
      });
      return { file, idempotencyKey: newRequestKey() };
    },
    onMutate: (chosen) => setName(chosen.name.replace(/\.\w+$/, '')),
  });
  return (
    <section className="card stack" aria-label="New bulk job">
      <h2>New bulk job</h2>
      <TextField
        label="File"
        hint="CSV with the columns use, prompt, …, or NDJSON with one item a line"
        type="file"
        accept=".csv,.tsv,.txt,.ndjson,.jsonl,.json,text/csv"
        onInput={({ currentTarget }) => {
          const [file] = currentTarget.files ?? [];
          if (file) read.mutate(file);
          // A file that was edited can be chosen again.
          currentTarget.value = '';
        }}
      />
      <ErrorMessage error={read.error} />
      {read.isPending && <Loading />}
      {read.data && <Start key={read.data.idempotencyKey} {...read.data} {...{ name, setName }} />}
    </section>
  );
}

interface StartProps extends ReadFile {
  name: string;
  setName: (name: string) => void;
}

function Start({ file, idempotencyKey, name, setName }: StartProps) {
  const [, navigate] = useLocation();
  const [maxCredits, setMaxCredits] = useState(() => {
    const max = file.options['maxCredits'];
    return typeof max === 'number' ? String(max) : '';
  });
  const { data: check, error } = useQuery({
    queryKey: ['bulk-estimate', idempotencyKey],
    queryFn: () => checkFile(file),
    staleTime: Infinity,
  });
  const start = useMutation({
    mutationFn: () => {
      const shared = file.options['metadata'];
      const metadata = {
        ...(typeof shared === 'object' && shared),
        ...(name.trim() !== '' && { name: name.trim() }),
      };
      const options = {
        metadata,
        ...(maxCredits !== '' && { maxCredits: Number(maxCredits) }),
        // The page names the rows that are left out, and asks for a click on the others.
        skipInvalid: true,
      };
      const body = buildItemsBody(file, options);
      return requestJson<{ data: Schemas['BulkJob'] }>(path, {
        method: 'POST',
        body,
        idempotencyKey,
      });
    },
    onSuccess: ({ data }) => navigate(`/bulk/${data.bulkId}`),
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    start.mutate();
  };
  const notes = [
    describeSkipped(file),
    file.encoding === otherEncoding
      ? 'The file is not UTF-8, and was read as Windows-1252: check the letters with accents.'
      : null,
  ];
  return (
    <form className="stack" aria-label="Start" onSubmit={submit}>
      {notes.map((note) => note && <p key={note}>{note}</p>)}
      <ErrorMessage error={error ?? start.error} />
      <ItemsTable file={file} errors={check?.errors ?? []} />
      {!check && !error && <Loading />}
      {check && (
        <StartRow
          {...{ file, check, name, setName, maxCredits, setMaxCredits }}
          isPending={start.isPending}
        />
      )}
    </form>
  );
}

interface StartRowProps extends Pick<StartProps, 'file' | 'name' | 'setName'> {
  check: Check;
  maxCredits: string;
  setMaxCredits: (text: string) => void;
  isPending: boolean;
}

/** Shows name, budget and price of the bulk job, and the button that starts it. */
function StartRow(props: StartRowProps) {
  const { file, check, name, setName, maxCredits, setMaxCredits, isPending } = props;
  const problems = file.rows.length - listItems(file).length + check.invalid;
  return (
    <>
      <div className="halves">
        <TextField label="Name" value={name} maxLength={512} change={setName} />
        <TextField
          label="Maximum credits"
          hint="the bulk job stops before it charges more"
          type="number"
          min={0}
          step="any"
          value={maxCredits}
          change={setMaxCredits}
        />
      </div>
      <div className="price">
        <p>
          {problems > 0 && (
            <strong className="wrong">
              {problems} of {file.rows.length} {file.noun}s cannot start.{' '}
            </strong>
          )}
          {check.items} {check.items === 1 ? 'item' : 'items'},{' '}
          <MostCredits credits={check.credits} />
        </p>
        <button type="submit" className="primary" disabled={isPending || check.items === 0}>
          {isPending ? 'Starting…' : problems > 0 ? `Start the other ${check.items}` : 'Start'}
        </button>
      </div>
    </>
  );
}

/** Checks and prices the items of a file. @throws ApiError unless the error names items */
async function checkFile(file: ItemsFile): Promise<Check> {
  const toErrors = (details: readonly { path: string; message: string }[]): RowError[] =>
    details.flatMap((detail) => findRowError(file, detail) ?? []);
  const items = listItems(file);
  if (items.length === 0) return { items: 0, invalid: 0, credits: 0, errors: [] };
  try {
    const body = buildItemsBody(file, { skipInvalid: true });
    const { data } = await requestJson<{ data: Schemas['BulkEstimate'] }>(`${path}/estimate`, {
      method: 'POST',
      body,
    });
    return { ...data, errors: toErrors(data.invalidItems) };
  } catch (error) {
    // The request is rejected if all items are invalid.
    const errors = error instanceof ApiError ? toErrors(error.details) : [];
    if (errors.length === 0) throw error;
    return { items: 0, invalid: items.length, credits: 0, errors };
  }
}
