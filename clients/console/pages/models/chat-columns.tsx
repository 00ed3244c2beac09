/** Table columns of the chat models: inputs, limits and prices. */
import { Link } from 'wouter';
import type { Schemas } from '../../gateway/client.ts';
import { compactNumber, Credits } from '../../parts/amounts.tsx';
import type { Column } from '../../parts/table.tsx';
import type { ChatPrice } from './chat-models-query.ts';

type Model = Schemas['ListModelsAnswer']['models'][number];
type Price = ChatPrice;

/** Chat model and its price. */
export interface ChatRow {
  model: Model;
  price: Price | undefined;
}

/** Returns the models whose id or name contains all search terms, with their prices. */
export function findChatModels(
  models: readonly Model[],
  prices: ReadonlyMap<string, Price>,
  terms: readonly string[],
): ChatRow[] {
  return models
    .filter(({ id, name }) => {
      const text = `chat ${id} ${name}`.toLowerCase();
      return terms.every((term) => text.includes(term));
    })
    .map((model) => ({ model, price: prices.get(model.id) }));
}

const isNumber = true;

/** Columns of the chat models. */
export const chatColumns: readonly Column<ChatRow>[] = [
  {
    title: 'Model',
    sortValue: ({ model }) => model.name,
    cell: ({ model: { id, name } }) => (
      <>
        <strong>{name}</strong>
        <code className="dim block">{id}</code>
      </>
    ),
  },
  {
    title: 'Input types',
    sortValue: ({ model }) => listInputTypes(model).length,
    cell: ({ model }) => listInputTypes(model).join(', '),
  },
  {
    title: 'Context',
    isNumber,
    sortValue: ({ model }) => model.limit.context,
    cell: ({ model }) => compactNumber.format(model.limit.context),
  },
  {
    title: 'Max output',
    isNumber,
    sortValue: ({ model }) => model.limit.output,
    cell: ({ model }) => compactNumber.format(model.limit.output),
  },
  {
    title: 'Input price',
    isNumber,
    sortValue: ({ price }) => price?.input ?? 0,
    cell: ({ price }) => price && <Credits amount={price.input} />,
  },
  {
    title: 'Output price',
    isNumber,
    sortValue: ({ price }) => price?.output ?? 0,
    cell: ({ price }) => price && <OutputPrice price={price} />,
  },
  {
    title: 'Action',
    cell: ({ model: { id, name } }) => (
      <Link
        className="button"
        href={`/playground/chat?${new URLSearchParams({ model: id }).toString()}`}
        aria-label={`Chat with ${name}`}
      >
        Chat
      </Link>
    ),
  },
];

function OutputPrice({ price: { output, longInput } }: { price: Price }) {
  return (
    <>
      <Credits amount={output} />
      {longInput && (
        <p className="hint">
          above {compactNumber.format(longInput.inputTokensAbove)}:{' '}
          <Credits amount={longInput.input} /> and <Credits amount={longInput.output} />
        </p>
      )}
    </>
  );
}

function listInputTypes({ supportsImages, supportsVideo, supportsAudio }: Model): string[] {
  return [
    'text',
    ...(supportsImages ? ['images'] : []),
    ...(supportsVideo ? ['video'] : []),
    ...(supportsAudio ? ['audio'] : []),
  ];
}
