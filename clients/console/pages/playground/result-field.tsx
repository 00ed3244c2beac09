/** Field of a step that takes a value of its own, or the result of an earlier step. */
import { type ReactNode } from 'react';
import { SelectField } from '../../parts/fields.tsx';
import { findArraySchema, toTitle, type Capability, type Field } from './capability.ts';

/** Returns whether a value is an object that is no list. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Reference to the result of an earlier step: its output, or a text of it. */
interface Reference {
  $from: string;
  field?: string;
  output?: 'chosen';
}

/** Returns whether a value is a reference. */
export const isReference = (value: unknown): value is Reference =>
  isObject(value) && '$from' in value;

/** Result that a field may take, with the text that names it. */
export interface Source {
  name: string;
  reference: Reference;
}

/** Lists the results of earlier steps that a field takes; a step with an approval may choose one. */
export function listSources(
  taken: readonly string[],
  earlier: readonly { id: string; capability: Capability }[],
  isApproved: boolean,
): Source[] {
  return earlier.flatMap(({ id, capability: { yields } }) => {
    const output = yields.output !== null && taken.includes(yields.output);
    const texts = taken.includes('text') ? yields.texts : [];
    return [
      ...(output ? [{ name: id, reference: { $from: id } }] : []),
      ...(output && isApproved
        ? [{ name: `${id}, which I choose`, reference: { $from: id, output: 'chosen' as const } }]
        : []),
      ...texts.map((field) => ({ name: `${id}, ${field}`, reference: { $from: id, field } })),
    ];
  });
}

const isSame = (one: unknown, other: unknown): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

interface ResultFieldProps {
  field: Field;
  value: unknown;
  sources: readonly Source[];
  change: (value: unknown) => void;
  render: (value: unknown, change: (value: unknown) => void) => ReactNode;
}

/** Shows a field with the results of earlier steps that it may take: one, or several if it is a list. */
export function ResultField({ field, value, sources, change, render }: ResultFieldProps) {
  if (sources.length === 0) return render(value, change);
  const title = toTitle(field.name);
  if (findArraySchema(field.schema)) {
    const entries: unknown[] = Array.isArray(value) ? value : [];
    const own = entries.filter((entry) => !isReference(entry));
    const taken = entries.filter((entry) => isReference(entry));
    const toggle = ({ reference }: Source, isTaken: boolean): void =>
      change([
        ...taken.filter((one) => !isSame(one, reference)),
        ...(isTaken ? [reference] : []),
        ...own,
      ]);
    return (
      <>
        <fieldset className="chips">
          <legend>{title} from</legend>
          {sources.map((source) => (
            <label key={source.name} className="chip">
              <input
                type="checkbox"
                checked={taken.some((one) => isSame(one, source.reference))}
                onChange={({ target }) => toggle(source, target.checked)}
              />
              {source.name}
            </label>
          ))}
        </fieldset>
        {taken.length === 0 &&
          render(own, (next) => change([...taken, ...(Array.isArray(next) ? next : [])]))}
      </>
    );
  }
  const chosen = sources.find(({ reference }) => isSame(reference, value));
  const choose = (name: string): void =>
    change(sources.find((source) => source.name === name)?.reference);
  const options = [
    ['', isReference(value) && !chosen ? JSON.stringify(value) : 'No step: enter it here'],
    ...sources.map(({ name }) => [name, `Result of ${name}`] as const),
  ] as const;
  return (
    <>
      <SelectField
        label={`${title} from`}
        options={options}
        value={chosen?.name ?? ''}
        change={choose}
      />
      {!isReference(value) && render(value, change)}
    </>
  );
}
