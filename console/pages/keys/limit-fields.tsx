/** Fields for the limit of a key: credits per period, or no limit. */
import type { Schemas } from '../../gateway/client.ts';

/** Values of the fields; empty credits are no limit. */
export interface LimitValues {
  credits: string;
  per: Schemas['KeyLimit']['per'];
}

const periods = [
  ['day', 'a day (UTC)'],
  ['week', 'a week, from Monday'],
  ['month', 'a calendar month'],
  ['total', 'in total'],
] as const;

/** Converts the values of the fields to the limit in a request; null if they are empty. */
export const limitOf = ({ credits, per }: LimitValues): Schemas['KeyLimit'] | null =>
  credits === '' ? null : { credits: Number(credits), per };

/** Describes a limit. */
export function limitText({ credits, per }: Schemas['KeyLimit']): string {
  return `${credits.toLocaleString()} credits ${per === 'total' ? 'in total' : `a ${per}`}`;
}

interface LimitFieldsProps {
  values: LimitValues;
  change: (values: LimitValues) => void;
}

/** Shows the fields of a limit. */
export function LimitFields({ values, change }: LimitFieldsProps) {
  return (
    <div className="pair">
      <label>
        Limit in credits
        <input
          type="number"
          min={0}
          max={1_000_000_000}
          step="any"
          placeholder="No limit"
          value={values.credits}
          onChange={({ target }) => change({ ...values, credits: target.value })}
        />
      </label>
      <label>
        Per
        <select
          value={values.per}
          onChange={({ target }) =>
            change({ ...values, per: periods.find(([id]) => id === target.value)?.[0] ?? 'month' })
          }
        >
          {periods.map(([id, text]) => (
            <option key={id} value={id}>
              {text}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
