import { expect, it } from 'vitest';
import { createBatcher } from '../../platform/batch.ts';
import { command } from '../../platform/database.ts';
import { useLedger } from '../ledger/use-ledger.ts';

const ledgers = useLedger();

it.each(['08006', '53100', '53300', '57P03'])(
  'a batch that Postgres rejects because it is unavailable (%s) is not sent again',
  async (code) => {
    await ledgers.query(`CREATE OR REPLACE FUNCTION fail(code text) RETURNS void LANGUAGE plpgsql
      AS 'BEGIN RAISE EXCEPTION USING ERRCODE = code; END'`);
    const batches: number[][] = [];
    const add = createBatcher<number, null>({
      name: 'test',
      sizeMax: 10,
      parallelMax: 1,
      async run(items) {
        batches.push(items);
        await ledgers.pool.query(command`SELECT fail(${code})`);
        return [];
      },
    });
    const outcomes = await Promise.allSettled([add(1), add(2)]);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(batches).toEqual([[1, 2]]);
  },
);
