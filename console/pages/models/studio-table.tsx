/** Studio models with their endpoints, prices and limits. */
import { useLocation } from 'wouter';
import type { Schemas } from '../../gateway/client.ts';
import { Table, type TableRow } from '../../parts/table.tsx';
import { Credits } from '../../parts/values.tsx';
import { draftPlace } from '../playground/capability-form.tsx';
import { nameOf, titleOf, type Capability } from '../playground/capability.ts';
import { priceWords, ruleText } from './price-words.ts';
import { Heads, useSorted, type Column } from './sorting.tsx';

/** A model at one endpoint. */
export interface StudioRow {
  capability: Capability;
  model: Capability['models'][number];
}

/** Returns the rows that contain all the words. */
export function studioRows(capabilities: readonly Capability[], words: string[]): StudioRow[] {
  return capabilities
    .flatMap((capability) => capability.models.map((model) => ({ capability, model })))
    .filter(({ capability, model }) => {
      const text = [nameOf(capability), model.id, model.displayName, model.servedBy].join(' ');
      return words.every((word) => text.toLowerCase().includes(word));
    });
}

const columns: readonly Column<StudioRow>[] = [
  { title: 'Model', value: ({ model }) => model.displayName },
  { title: 'Endpoint', value: ({ capability }) => nameOf(capability) },
  { title: 'Credits', value: ({ model }) => model.example.credits },
];

/** Lists the Studio models. */
export function StudioTable({ rows }: { rows: readonly StudioRow[] }) {
  const sorted = useSorted(rows);
  return (
    <Table
      label="Studio models"
      className="models"
      columns={[...columns, 'Limits', 'Action']}
      heads={
        <>
          <Heads columns={columns} sorted={sorted} />
          <th scope="col">Limits</th>
          <th scope="col">Action</th>
        </>
      }
      rows={sorted.rows.map(rowOf)}
    />
  );
}

function rowOf({ capability, model }: StudioRow): TableRow {
  const { id, displayName, servedBy, price, example, parameters, selectedBy } = model;
  return {
    id: `${capability.type} ${JSON.stringify(selectedBy)}`,
    attributes: { 'data-model': id },
    cells: [
      <>
        <strong>{displayName}</strong>
        <br />
        <code className="dim">{id}</code>
        {servedBy !== displayName && <span className="dim"> · {servedBy}</span>}
      </>,
      nameOf(capability),
      <>
        {priceWords(price)}
        <br />
        <span className="dim">
          e. g. <Credits amount={example.credits} /> {exampleText(example)}
        </span>
      </>,
      <Limits key="limits" parameters={parameters} />,
      <Try key="try" capability={capability} model={model} />,
    ],
  };
}

function Try({ capability, model: { displayName, selectedBy } }: StudioRow) {
  const [, go] = useLocation();
  const open = (): void => {
    const place = draftPlace(capability.type);
    const draft: object = JSON.parse(sessionStorage.getItem(place) ?? '{}');
    sessionStorage.setItem(place, JSON.stringify({ ...draft, ...selectedBy }));
    go(`/playground/${nameOf(capability)}`);
  };
  return (
    <button type="button" onClick={open} aria-label={`Try ${displayName}, ${nameOf(capability)}`}>
      Try
    </button>
  );
}

/** Describes the values of an example that decide its price. */
function exampleText({ request, input }: StudioRow['model']['example']): string {
  const said = Object.entries(request).filter(([, value]) => typeof value === 'number');
  const words = said.map(([name, value]) => `${titleOf(name).toLowerCase()} ${String(value)}`);
  if (input) words.push(`an input of ${input.width} × ${input.height}, ${input.durationSeconds} s`);
  return words.length === 0 ? '' : `for ${words.join(', ')}`;
}

function Limits({ parameters }: { parameters: Record<string, Schemas['ParameterRule']> }) {
  const rules = Object.entries(parameters).flatMap(([name, rule]) => {
    const text = ruleText(rule);
    return text === null ? [] : [{ name, text }];
  });
  if (rules.length === 0) return <span className="dim">of the endpoint</span>;
  return (
    <details>
      <summary>{rules.length === 1 ? '1 field' : `${rules.length} fields`}</summary>
      <dl className="facts">
        {rules.map(({ name, text }) => (
          <div key={name}>
            <dt>{titleOf(name)}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
