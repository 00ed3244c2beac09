/** Fields for the credit limit of a key. */
import type { Schemas } from '../../gateway/client.ts';
import type { FieldReader } from '../../parts/dialog.tsx';
import { SelectField, TextField } from '../../parts/fields.tsx';

type KeyLimit = Schemas['KeyLimit'];

const periods = [
  ['day', 'a day (UTC)'],
  ['week', 'a week, from Monday'],
  ['month', 'a calendar month'],
  ['total', 'in total'],
] as const;

/** Reads the limit of a key from the form fields. Returns null if no credits are entered. */
export function readLimit(read: FieldReader): KeyLimit | null {
  const per = periods.find(([id]) => id === read('per'))?.[0] ?? 'month';
  return read('credits') === '' ? null : { credits: Number(read('credits')), per };
}

/** Formats the limit of a key, e.g. `500 credits a month`. */
export function formatLimit({ credits, per }: KeyLimit): string {
  return `${credits.toLocaleString()} credits ${per === 'total' ? 'in total' : `a ${per}`}`;
}

/** Shows the fields for the limit of a key, prefilled with the current limit. */
export function LimitFields({ limit }: { limit: KeyLimit | null }) {
  return (
    <div className="pair">
      <TextField
        label="Limit in credits"
        name="credits"
        type="number"
        min={0}
        max={1_000_000_000}
        step="any"
        placeholder="No limit"
        defaultValue={limit?.credits}
      />
      <SelectField label="Per" name="per" options={periods} defaultValue={limit?.per ?? 'month'} />
    </div>
  );
}
