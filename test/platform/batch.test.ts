import { expect, it } from 'vitest';
import { createBatcher } from '../../platform/batch.ts';
import { DatabaseSilentError } from '../../platform/database-errors.ts';

it('a batch to which the database does not respond is not sent again', async () => {
  const batches: number[][] = [];
  const add = createBatcher<number, null>({
    name: 'test',
    sizeMax: 10,
    parallelMax: 1,
    run(items) {
      batches.push(items);
      return Promise.reject(new DatabaseSilentError('test'));
    },
  });
  const outcomes = await Promise.allSettled([add(1), add(2)]);
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(batches).toEqual([[1, 2]]);
});
