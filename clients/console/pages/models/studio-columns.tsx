/** Table columns of the Studio models: endpoints, prices and limits. */
import { useLocation } from 'wouter';
import type { Schemas } from '../../gateway/client.ts';
import { Credits } from '../../parts/amounts.tsx';
import { DescriptionList } from '../../parts/description-list.tsx';
import type { Column } from '../../parts/table.tsx';
import { studioPath, toTitle, type Capability } from '../playground/capability.ts';
import { readDraft, storeDraft } from '../playground/draft.ts';
import { formatPrice, formatRule } from './price-text.ts';

/** Model and one of its endpoints. */
export interface StudioRow {
  capability: Capability;
  model: Capability['models'][number];
}

/** Returns one row for each model and endpoint that match all search terms. */
export function findStudioModels(
  capabilities: readonly Capability[],
  terms: readonly string[],
): StudioRow[] {
  return capabilities
    .flatMap((capability) => capability.models.map((model) => ({ capability, model })))
    .filter(({ capability, model }) => {
      const text = [studioPath(capability), model.id, model.displayName, model.servedBy].join(' ');
      return terms.every((term) => text.toLowerCase().includes(term));
    });
}

/** Columns of the Studio models. */
export const studioColumns: readonly Column<StudioRow>[] = [
  {
    title: 'Model',
    sortValue: ({ model }) => model.displayName,
    cell: ({ model: { id, displayName, servedBy } }) => (
      <>
        <strong>{displayName}</strong>
        <br />
        <code className="dim">{id}</code>
        {servedBy !== displayName && <span className="dim"> · {servedBy}</span>}
      </>
    ),
  },
  {
    title: 'Endpoint',
    sortValue: ({ capability }) => studioPath(capability),
    cell: ({ capability }) => studioPath(capability),
  },
  {
    title: 'Credits',
    sortValue: ({ model }) => model.example.credits,
    cell: ({ model: { price, example } }) => (
      <>
        {formatPrice(price)}
        <br />
        <span className="dim">
          Example: <Credits amount={example.credits} /> {formatExample(example)}
        </span>
      </>
    ),
  },
  { title: 'Limits', cell: ({ model }) => <Limits parameters={model.parameters} /> },
  { title: 'Action', cell: (row) => <TryButton {...row} /> },
];

function TryButton({ capability, model: { displayName, selectedBy } }: StudioRow) {
  const [, navigate] = useLocation();
  const name = studioPath(capability);
  const open = (): void => {
    storeDraft(capability.type, { ...readDraft(capability.type), ...selectedBy });
    navigate(`/playground/${name}`);
  };
  return (
    <button type="button" onClick={open} aria-label={`Try ${displayName}, ${name}`}>
      Try
    </button>
  );
}

/** Formats the numbers that determine the price of the example, e.g. `(number of images 2)`. */
function formatExample({ request, input }: StudioRow['model']['example']): string {
  const numbers = Object.entries(request).filter(([, value]) => typeof value === 'number');
  const parts = numbers.map(([name, value]) => `${toTitle(name).toLowerCase()} ${String(value)}`);
  if (input) parts.push(`input ${input.width} × ${input.height}, ${input.durationSeconds} s`);
  return parts.length === 0 ? '' : `(${parts.join(', ')})`;
}

function Limits({ parameters }: { parameters: Record<string, Schemas['ParameterRule']> }) {
  const rules = Object.entries(parameters).flatMap(([name, rule]) => {
    const text = formatRule(rule);
    return text === null ? [] : [[toTitle(name), text] as const];
  });
  if (rules.length === 0) return <span className="dim">limits of the endpoint</span>;
  return (
    <details>
      <summary>{rules.length === 1 ? '1 field' : `${rules.length} fields`}</summary>
      <DescriptionList items={Object.fromEntries(rules)} />
    </details>
  );
}
