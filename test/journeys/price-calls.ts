/** Rows of the price book, and the charges by them, in the tests of a file. */
import { expect } from 'vitest';
import type { TestCaller, TestGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

/** Settings of an API that reads the price book for each request, so that rows count at once. */
export const readsPrices = { PRICE_CHANGE_DELAY_MS: '0' };

interface Row {
  id: string;
  validFrom: string;
}

/** Returns functions that add rows and read charges. */
export function createPriceCalls(gateway: TestGateway) {
  return {
    /** Adds a row for a caller, by default a markup of 50 %, and returns its id once it is valid. */
    async add(
      { organizationId }: TestCaller,
      row: object = { markupPercent: 50 },
    ): Promise<string> {
      const body = { organizationId, what: '*', ...row };
      const added = await gateway.admin<{ data: Row }>('/prices', body);
      expect(added.status, JSON.stringify(added.body)).toBe(200);
      const { id, validFrom } = added.body.data;
      const { priceBook } = gateway.api.services;
      await until(async () => (await priceBook.at(null)).atMs >= Date.parse(validFrom));
      return id;
    },
    /** Returns the amounts of the reservations of a caller, with the rows that their entries name. */
    readCharges: ({ organizationId }: TestCaller) =>
      gateway.database.query<Record<string, unknown>>(
        `SELECT r.id, r.amount::float8, r.charged::float8, r.cost::float8, r.price_rows,
           (SELECT e.price_rows FROM ledger_entry e WHERE e.reservation_id = r.id AND e.kind = 'reserve') AS reserved_by,
           (SELECT e.price_rows FROM ledger_entry e WHERE e.reservation_id = r.id AND e.kind = 'charge') AS charged_by
         FROM reservation r WHERE organization_id = $1 ORDER BY created_at, id`,
        [organizationId],
      ),
  };
}
