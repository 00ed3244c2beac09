/** Chat models: what they read, how much, and what tokens cost. */
import { Link } from 'wouter';
import type { Schemas } from '../../gateway/client.ts';
import { Credits } from '../../parts/values.tsx';
import { Heads, useSorted, type Column } from './sorting.tsx';

type Model = Schemas['ListModelsAnswer']['models'][number];
type Price = Schemas['GetPricingAnswer']['chat'][number];

/** A model with its price. */
export interface ChatRow {
  model: Model;
  price: Price | undefined;
}

/** Those that have all the words. */
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
  { title: 'Reads', value: ({ model }) => readsOf(model).length },
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
    // oxlint-disable-next-line no-noninteractive-tabindex -- what scrolls can be reached by keys
    <div className="scroll" tabIndex={0} role="region" aria-label="Chat models">
      <table className="models">
        <caption>Context and answer in tokens; prices in credits per million tokens</caption>
        <thead>
          <tr>
            <Heads columns={columns} sorted={sorted} />
            <th scope="col">Try</th>
          </tr>
        </thead>
        <tbody>
          {sorted.rows.map(({ model, price }) => (
            <tr key={model.id} data-model={model.id}>
              <th scope="row">
                {model.name}
                <br />
                <code className="dim">{model.id}</code>
              </th>
              <td>{readsOf(model).join(', ')}</td>
              <td className="number">{short.format(model.limit.context)}</td>
              <td className="number">{short.format(model.limit.output)}</td>
              <td className="number">{price && <Credits amount={price.input} />}</td>
              <td className="number">
                {price && <Credits amount={price.output} />}
                {price?.longInput && <LongInput {...price.longInput} />}
              </td>
              <td>
                <Link
                  className="button"
                  href={`/playground/chat?${new URLSearchParams({ model: model.id }).toString()}`}
                  aria-label={`Chat with ${model.name}`}
                >
                  Chat
                </Link>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
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
