/**
 * A slice of the crash matrix (docs/faults.md), a different one every day: one column in which the
 * worker is killed, one with another process, four kinds each. `FAULT_DAY=<n>` repeats the slice of
 * a day.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { reaches, runColumn, victims, type Victim } from '../faults/cell.ts';
import { kinds } from '../faults/kinds.ts';
import { points, type Point } from '../faults/points.ts';
import { shuffle } from '../faults/shuffle.ts';
import { guardSettlements } from '../harness/settlement-guard.ts';
import { startStack, type FaultStack } from '../faults/stack.ts';

const day = Number(process.env['FAULT_DAY'] ?? Math.floor(Date.now() / 86_400_000));

/** Ten days cover every point of the worker, forty days every point of the other processes. */
function columnsOfDay(): { victim: Victim; point: Point }[] {
  const others = victims.filter((victim) => victim !== 'worker');
  const columns = others.flatMap((victim) => points.map((point) => ({ victim, point })));
  const rest = shuffle(columns, 1);
  const at = day % rest.length;
  const worker = { victim: 'worker' as const, point: points[day % points.length] ?? 'reserved' };
  return [worker, ...rest.slice(at, at + 1)];
}

let stack: FaultStack;
beforeAll(async () => {
  stack = await startStack();
  // No transaction may leave a charged job that is not completed, or a completed one not charged.
  await guardSettlements((text) => stack.query(text));
});
afterAll(() => stack.close());

describe(`day ${day}`, () => {
  it.each(columnsOfDay())(
    '$victim killed at $point loses no job and charges none twice',
    async ({ victim, point }) => {
      const possible = kinds.filter((kind) => reaches(kind, point));
      const chosen = shuffle(possible, day).slice(0, 4);
      const results = await runColumn(stack, { victim, point, kinds: chosen, downMs: 500 });
      expect(results.filter(({ verdict }) => verdict === 'violated')).toEqual([]);
      expect(results).toHaveLength(4);
    },
  );
});
