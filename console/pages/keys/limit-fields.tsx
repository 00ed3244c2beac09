/** What a key may spend: credits per period, or no limit. */
import type { Schemas } from '../../gateway/client.ts';

/** As it is typed; empty credits are no limit. */
export interface LimitWish {
  credits: string;
  per: Schemas['KeyLimit']['per'];
}

const periods = [
  ['day', 'a day (UTC)'],
  ['week', 'a week, from Monday'],
  ['month', 'a calendar month'],
  ['total', 'in all, ever'],
] as const;

/** Converts the fields of a limit to the API’s form; null if they are empty. */
export const limitOf = ({ credits, per }: LimitWish): Schemas['KeyLimit'] | null =>
  credits === '' ? null : { credits: Number(credits), per };

/** A limit in words. */
export function limitText({ credits, per }: Schemas['KeyLimit']): string {
  return `${credits.toLocaleString()} credits ${per === 'total' ? 'in all' : `a ${per}`}`;
}

interface LimitFieldsProps {
  wish: LimitWish;
  change: (wish: LimitWish) => void;
}

/** Asks for a limit. */
export function LimitFields({ wish, change }: LimitFieldsProps) {
  return (
    <div className="pair">
      <label>
        Limit in credits
        <input
          type="number"
          min={0}
          max={1_000_000_000}
          step="any"
          placeholder="no limit"
          value={wish.credits}
          onChange={({ target }) => change({ ...wish, credits: target.value })}
        />
      </label>
      <label>
        Per
        <select
          value={wish.per}
          onChange={({ target }) =>
            change({ ...wish, per: periods.find(([id]) => id === target.value)?.[0] ?? 'month' })
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
