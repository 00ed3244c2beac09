/** Studio models: what they make, what they cost, what they take. */
import { useLocation } from 'wouter';
import type { Schemas } from '../../gateway/client.ts';
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

/** Those that have all the words. */
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
    // oxlint-disable-next-line no-noninteractive-tabindex -- what scrolls can be reached by keys
    <div className="scroll" tabIndex={0} role="region" aria-label="Studio models">
      <table className="models">
        <thead>
          <tr>
            <Heads columns={columns} sorted={sorted} />
            <th scope="col">Limits</th>
            <th scope="col">Try</th>
          </tr>
        </thead>
        <tbody>
          {sorted.rows.map((row) => (
            <Line key={`${row.capability.type} ${JSON.stringify(row.model.selectedBy)}`} {...row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Line({ capability, model }: StudioRow) {
  const [, go] = useLocation();
  const { id, displayName, servedBy, price, example, parameters, selectedBy } = model;
  const tryIt = (): void => {
    const place = draftPlace(capability.type);
    const draft: object = JSON.parse(sessionStorage.getItem(place) ?? '{}');
    sessionStorage.setItem(place, JSON.stringify({ ...draft, ...selectedBy }));
    go(`/playground/${nameOf(capability)}`);
  };
  return (
    <tr data-model={id}>
      <th scope="row">
        {displayName}
        <br />
        <code className="dim">{id}</code>
        {servedBy !== displayName && <span className="dim"> · {servedBy}</span>}
      </th>
      <td>{nameOf(capability)}</td>
      <td className="price-words">
        {priceWords(price)}
        <br />
        <span className="dim">
          e. g. <Credits amount={example.credits} /> {exampleText(example)}
        </span>
      </td>
      <td>
        <Limits parameters={parameters} />
      </td>
      <td>
        <button
          type="button"
          onClick={tryIt}
          aria-label={`Try it: ${displayName}, ${nameOf(capability)}`}
        >
          Try it
        </button>
      </td>
    </tr>
  );
}

/** What of a request decides its price. */
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
  if (rules.length === 0) return <span className="dim">those of the endpoint</span>;
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
