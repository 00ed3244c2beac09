/** Table columns of the Studio models: endpoints, prices and limits. */
import type { Schemas } from '../../gateway/client.ts';
import { Credits, UsdPrice } from '../../parts/amounts.tsx';
import { DescriptionList } from '../../parts/description-list.tsx';
import type { Column } from '../../parts/table.tsx';
import { studioPath, toTitle, type Capability } from '../playground/capability.ts';
import { useOpenForm } from '../playground/draft.ts';
import { describeOptions, findDefaultPrice, formatRule, listOptions } from './price-text.ts';

/** Model and one of its endpoints. */
export interface StudioRow {
  capability: Capability;
  model: Capability['models'][number];
}

/** Media by which the models are grouped. */
export const media = ['All', 'Image', 'Video', 'Audio', 'Chat'] as const;

/** Returns the medium of an endpoint: that of its path, or audio (voiceovers, music, effects). */
function findMedium(capability: Capability): string {
  const [folder] = studioPath(capability).split('/');
  return media.find((medium) => medium.toLowerCase() === folder) ?? 'Audio';
}

/** Returns one row for each model and endpoint of a medium that match all search terms. */
export function findStudioModels(
  capabilities: readonly Capability[],
  terms: readonly string[],
  medium: string,
): StudioRow[] {
  return capabilities
    .filter((capability) => medium === 'All' || findMedium(capability) === medium)
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
    title: 'Price',
    sortValue: ({ capability, model }) => findDefaultPrice(model, capability)?.credits ?? 0,
    cell: (row) => <Price {...row} />,
  },
  {
    title: 'Usual time',
    isNumber: true,
    sortValue: ({ model }) => model.typicalSeconds ?? Infinity,
    cell: ({ model: { typicalSeconds } }) => typicalSeconds !== null && `${typicalSeconds} s`,
  },
  { title: 'Limits', cell: ({ model }) => <Limits parameters={model.parameters} /> },
  { title: 'Action', cell: (row) => <TryButton {...row} /> },
];

function TryButton({ capability, model: { displayName, selectedBy } }: StudioRow) {
  const openForm = useOpenForm();
  return (
    <button
      type="button"
      onClick={() => openForm(capability, selectedBy)}
      aria-label={`Try ${displayName}, ${studioPath(capability)}`}
    >
      Try
    </button>
  );
}

/** Shows the price with the default options, and the price of each other option. */
function Price({ capability, model }: StudioRow) {
  const price = findDefaultPrice(model, capability);
  if (!price) return null;
  const options = listOptions(model.price);
  const isLowest = model.price[0]?.rows.every(({ credits }) => credits >= price.credits);
  return (
    <>
      <strong>
        {options.length > 1 && isLowest && 'from '}
        <Credits amount={price.credits} />
      </strong>{' '}
      per {price.unit} <UsdPrice credits={price.credits} />
      {options.length > 1 && (
        <details>
          <summary>{options.length} prices</summary>
          <DescriptionList
            items={Object.fromEntries(
              options.map(({ option, unit, credits }) => [
                option,
                <span key={option}>
                  <Credits amount={credits} /> per {unit} <UsdPrice credits={credits} />
                </span>,
              ]),
            )}
          />
          {describeOptions(model, capability).map((text) => (
            <p key={text} className="hint">
              {text}
            </p>
          ))}
        </details>
      )}
    </>
  );
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
