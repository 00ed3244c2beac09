/** Fields for the limits of keys and organizations. */
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

const readNumber = (text: string): number | null => (text === '' ? null : Number(text));

/** Reads the rate limit and the limit of open jobs from the form fields. Null means no limit. */
export const readUseLimits = (read: FieldReader) => ({
  rateLimit: readNumber(read('rateLimit')),
  jobsMax: readNumber(read('jobsMax')),
});

/** Reads the limit in credits from the form fields. Null means no limit. */
export function readCreditLimit(read: FieldReader): KeyLimit | null {
  const per = periods.find(([id]) => id === read('per'))?.[0] ?? 'month';
  const credits = readNumber(read('credits'));
  return credits === null ? null : { credits, per };
}

/** Reads all limits of a key from the form fields. Null means no limit. */
export const readLimits = (read: FieldReader) => ({
  limit: readCreditLimit(read),
  ...readUseLimits(read),
});

/** Formats the limit of a key, e.g. `500 credits a month`. */
export function formatLimit({ credits, per }: KeyLimit): string {
  return `${credits.toLocaleString()} credits ${per === 'total' ? 'in total' : `a ${per}`}`;
}

/** Limits of requests and jobs. */
interface UseLimits {
  rateLimit: number | null;
  jobsMax: number | null;
}

/** Shows the fields for the rate limit and the limit of open jobs. */
export function UseLimitFields({ limits }: { limits: UseLimits | null }) {
  return (
    <div className="pair">
      <TextField
        label="Requests a minute"
        name="rateLimit"
        type="number"
        min={1}
        max={1_000_000}
        placeholder="Default"
        defaultValue={limits?.rateLimit ?? ''}
      />
      <TextField
        label="Open jobs at most"
        name="jobsMax"
        type="number"
        min={1}
        max={100_000}
        placeholder="No limit"
        defaultValue={limits?.jobsMax ?? ''}
      />
    </div>
  );
}

/** Shows the fields for all limits of a key, prefilled with the current ones. */
export function LimitFields({
  limits,
}: {
  limits: (UseLimits & { limit: KeyLimit | null }) | null;
}) {
  return (
    <>
      <CreditLimitFields limit={limits?.limit ?? null} />
      <UseLimitFields limits={limits} />
    </>
  );
}

/** Shows the fields for a limit in credits. */
export function CreditLimitFields({ limit }: { limit: KeyLimit | null }) {
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
