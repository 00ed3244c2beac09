import { expect, it } from 'vitest';
import { createBatcher } from '../../platform/batch.ts';
import { command } from '../../platform/database.ts';
import { useLedger } from '../ledger/use-ledger.ts';

const ledgers = useLedger();

const lockTimeout = '55P03';
it.each([['08006'], ['53100'], ['53300'], ['57P03'], [lockTimeout, '57P03']])(
  'a batch that Postgres rejects because it is unavailable (%s) is not sent again',
  async (...codes) => {
    await ledgers.query(`CREATE OR REPLACE FUNCTION fail(code text) RETURNS void LANGUAGE plpgsql
      AS 'BEGIN RAISE EXCEPTION USING ERRCODE = code; END'`);
    const batches: number[][] = [];
    const add = createBatcher<number, null>({
      name: 'test',
      sizeMax: 10,
      parallelMax: 1,
      async run(items) {
        batches.push(items);
        await ledgers.pool.query(command`SELECT fail(${codes[batches.length - 1] ?? ''})`);
        return [];
      },
    });
    const outcomes = await Promise.allSettled([add(1), add(2)]);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(batches).toEqual(codes.map(() => [1, 2]));
  },
);
