/** Chat models with their inputs, limits and prices. */
import { Link } from 'wouter';
import type { Schemas } from '../../gateway/client.ts';
import { Table, type TableRow } from '../../parts/table.tsx';
import { Credits } from '../../parts/values.tsx';
import { Heads, useSorted, type Column } from './sorting.tsx';

type Model = Schemas['ListModelsAnswer']['models'][number];
type Price = Schemas['GetPricingAnswer']['chat'][number];

/** A model with its price. */
export interface ChatRow {
  model: Model;
  price: Price | undefined;
}

/** Returns the rows that contain all the words. */
export function chatRows(
  models: readonly Model[],
  prices: readonly Price[],
  words: string[],
): ChatRow[] {
  const byId = new Map(prices.map((price) => [price.model, price]));
  return models
    .filter(({ id, name }) => {
      const text = `chat ${id} ${name}`.toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .map((model) => ({ model, price: byId.get(model.id) }));
}

const columns: readonly Column<ChatRow>[] = [
  { title: 'Model', value: ({ model }) => model.name },
  { title: 'Input types', value: ({ model }) => readsOf(model).length },
  { title: 'Context', isNumber: true, value: ({ model }) => model.limit.context },
  { title: 'Answer', isNumber: true, value: ({ model }) => model.limit.output },
  { title: 'Input', isNumber: true, value: ({ price }) => price?.input ?? 0 },
  { title: 'Output', isNumber: true, value: ({ price }) => price?.output ?? 0 },
];

const short = new Intl.NumberFormat(undefined, { notation: 'compact' });

/** Lists the chat models. */
export function ChatTable({ rows }: { rows: readonly ChatRow[] }) {
  const sorted = useSorted(rows);
  return (
    <Table
      label="Chat models"
      className="models"
      caption="Context and answer in tokens; prices in credits per million tokens"
      columns={[...columns, 'Action']}
      heads={
        <>
          <Heads columns={columns} sorted={sorted} />
          <th scope="col">Action</th>
        </>
      }
      rows={sorted.rows.map(rowOf)}
    />
  );
}

function rowOf({ model, price }: ChatRow): TableRow {
  return {
    id: model.id,
    attributes: { 'data-model': model.id },
    cells: [
      <>
        <strong>{model.name}</strong>
        <br />
        <code className="dim">{model.id}</code>
      </>,
      readsOf(model).join(', '),
      short.format(model.limit.context),
      short.format(model.limit.output),
      price && <Credits amount={price.input} />,
      <>
        {price && <Credits amount={price.output} />}
        {price?.longInput && <LongInput {...price.longInput} />}
      </>,
      <Link
        key="chat"
        className="button"
        href={`/playground/chat?${new URLSearchParams({ model: model.id }).toString()}`}
        aria-label={`Chat with ${model.name}`}
      >
        Chat
      </Link>,
    ],
  };
}

function LongInput({ inputTokensAbove, input, output }: NonNullable<Price['longInput']>) {
  return (
    <p className="hint">
      above {short.format(inputTokensAbove)}: <Credits amount={input} /> and{' '}
      <Credits amount={output} />
    </p>
  );
}

function readsOf({ supportsImages, supportsVideo, supportsAudio }: Model): string[] {
  return [
    'text',
    ...(supportsImages ? ['images'] : []),
    ...(supportsVideo ? ['video'] : []),
    ...(supportsAudio ? ['audio'] : []),
  ];
}
