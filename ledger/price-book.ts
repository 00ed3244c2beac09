/**
 * The price book: rows that set prices of an organization, or of all. A request is priced once, by the
 * rows that are valid at its time. Each process knows the rows; it reads changes every few seconds, and
 * a change counts only when every process knows it (docs/price-book.md).
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { fixedUnits, priceUnit, type BookPrice, type PriceUnit } from '../domain/book-price.ts';
import { microFromCredits } from '../domain/credits.ts';
import type { Config } from '../platform/config.ts';
import type { DatabasePool } from '../platform/database.ts';

/** Schema of a row. Times are Unix milliseconds. */
export const priceRow = z.object({
  id: z.string(),
  organizationId: z.string().nullable(),
  what: z.string(),
  /** Hundredths of a percent that are added to the catalog's price; null if the price is fixed. */
  markup: z.int().nullable(),
  unit: z.enum(fixedUnits).nullable(),
  unitMicro: z.int().nullable(),
  /** Fixed prices of a million tokens. */
  inputMicro: z.int().nullable(),
  outputMicro: z.int().nullable(),
  validFromAtMs: z.number(),
  validUntilAtMs: z.number().nullable(),
  createdAtMs: z.number(),
});
export type PriceRow = z.infer<typeof priceRow>;

/** Work whose price a row may set. */
export interface PricedWork {
  model: string | null;
  /** Studio endpoint, such as `image/generate`, or `chat`. */
  use: string;
}

/** Price of a unit, in micro-credits. */
export interface PricedUnit {
  unitPriceMicro: number;
  /** Price of the unit in the catalog. */
  unitCostMicro: number;
  /** Row of the price book; null if the catalog's price applies. */
  book: BookPrice | null;
}

/** Prices of an organization at one time, by which a request is priced. */
export interface Prices {
  /** Time of the prices, by the clock of the database. */
  atMs: number;
  usdPerCredit: number;
  /** Text that differs if the rows differ; empty if no row applies. */
  name: string;
  /** Returns the price of the most specific valid row; null if there is none. */
  find: (work: PricedWork, unit: PriceUnit) => BookPrice | null;
}

/** Prices a unit of Studio work that costs `usd` in the catalog. */
export function priceUsd(
  prices: Prices,
  usd: number,
  { unit, ...work }: PricedWork & { unit: PriceUnit },
): PricedUnit {
  const unitCostMicro = microFromCredits(usd / prices.usdPerCredit);
  const book = prices.find(work, unit);
  return { unitCostMicro, unitPriceMicro: priceUnit(unitCostMicro, book), book };
}

/** Share of the delay of a change after which a process waits for a new read of the rows. */
const ageMaxShare = 0.5;
/** Share of the delay of a change after which a process reads the rows again. */
const readEveryShare = 0.25;

const readRow = z.object({
  nowMs: z.number(),
  version: z.number().nullable(),
  rows: z.array(priceRow),
});

type BookConfig = Pick<Config, 'USD_PER_CREDIT' | 'PRICE_CHANGE_DELAY_MS'>;

/** Creates the price book of a process. */
export function createPriceBook(pool: DatabasePool, config: BookConfig) {
  const { USD_PER_CREDIT: usdPerCredit, PRICE_CHANGE_DELAY_MS: delayMs } = config;
  const rows = new Map<string, PriceRow>();
  /** Rows that may apply to an organization, sorted by `compareRows`. */
  let sorted = new Map<string | null, readonly PriceRow[]>();
  let version = 0;
  /** Time of the last read by the process's clock, and by that of the database. */
  let read = { startedMs: -Infinity, endedMs: 0, nowMs: 0 };
  let pending: Promise<void> | null = null;

  async function readChanges(): Promise<void> {
    const startedMs = performance.now();
    const changes = await pool.one(sql.type(readRow)`
      SELECT unix_ms(clock_timestamp()) AS "nowMs", max(p.version) AS version,
        coalesce(jsonb_agg(jsonb_build_object('id', p.id, 'organizationId', p.organization_id, 'what', p.what,
          'markup', p.markup, 'unit', p.unit, 'unitMicro', p.unit_micro, 'inputMicro', p.input_micro,
          'outputMicro', p.output_micro, 'validFromAtMs', unix_ms(p.valid_from),
          'validUntilAtMs', unix_ms(p.valid_until), 'createdAtMs', unix_ms(p.created_at)))
          FILTER (WHERE p.id IS NOT NULL), '[]') AS rows
      FROM price_row p WHERE p.version > ${version}`);
    if (changes.version !== null) {
      version = changes.version;
      for (const row of changes.rows) rows.set(row.id, row);
      sorted = new Map();
    }
    read = { startedMs, endedMs: performance.now(), nowMs: changes.nowMs };
  }

  const refresh = (): Promise<void> =>
    (pending ??= readChanges().finally(() => {
      pending = null;
    }));

  function listRows(organizationId: string | null): readonly PriceRow[] {
    const known = sorted.get(organizationId);
    if (known) return known;
    const list = [...rows.values()]
      .filter((row) => row.organizationId === null || row.organizationId === organizationId)
      .toSorted(compareRows);
    sorted.set(organizationId, list);
    return list;
  }

  const timer =
    delayMs > 0
      ? setInterval(() => void refresh().catch(() => {}), delayMs * readEveryShare).unref()
      : undefined;

  return {
    /**
     * Returns the prices of an organization at a time, by default now; those of all organizations if
     * it is null. Prices of a past time are the same in each process, also after later changes.
     */
    async at(organizationId: string | null, pastMs?: number): Promise<Prices> {
      const ageMs = performance.now() - read.startedMs;
      if (pastMs !== undefined ? read.nowMs <= pastMs : ageMs >= delayMs * ageMaxShare)
        await refresh();
      const atMs = pastMs ?? read.nowMs + performance.now() - read.endedMs;
      return createPrices(listRows(organizationId), { atMs, usdPerCredit });
    },
    close: () => clearInterval(timer),
  };
}
export type PriceBook = ReturnType<typeof createPriceBook>;

/** Returns a negative number if the first row is that of an organization, or newer. */
const compareRows = (a: PriceRow, b: PriceRow): number =>
  Number(a.organizationId === null) - Number(b.organizationId === null) ||
  b.createdAtMs - a.createdAtMs ||
  (a.id < b.id ? 1 : -1);

/** Creates the prices at a time from the rows that may apply, sorted by `compareRows`. */
function createPrices(
  rows: readonly PriceRow[],
  { atMs, usdPerCredit }: Pick<Prices, 'atMs' | 'usdPerCredit'>,
): Prices {
  const valid = rows.filter(
    ({ validFromAtMs, validUntilAtMs }) =>
      validFromAtMs <= atMs && atMs < (validUntilAtMs ?? Infinity),
  );
  return {
    atMs,
    usdPerCredit,
    name: valid.map(({ id }) => id).join(' '),
    find({ model, use }, unit) {
      for (const ofAll of [false, true]) {
        for (const what of [model, use, '*']) {
          const found = valid.find(
            (row) =>
              row.what === what && (row.organizationId === null) === ofAll && hasUnit(row, unit),
          );
          if (found) return toBookPrice(found);
        }
      }
      return null;
    },
  };
}

/** The prices of the catalog. */
export const catalogPrices = (usdPerCredit: number): Prices =>
  createPrices([], { atMs: 0, usdPerCredit });

const hasUnit = ({ markup, unit }: PriceRow, wanted: PriceUnit): boolean =>
  markup !== null || (unit ?? 'token') === wanted;

function toBookPrice({ id: row, markup, unit, ...fixed }: PriceRow): BookPrice {
  const { unitMicro, inputMicro, outputMicro } = fixed;
  if (markup !== null) return { kind: 'markup', row, markup };
  if (unit !== null) return { kind: 'unit', row, unit, unitMicro: unitMicro ?? 0 };
  return { kind: 'tokens', row, inputMicro: inputMicro ?? 0, outputMicro: outputMicro ?? 0 };
}
