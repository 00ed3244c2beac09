import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createTurns } from '../../platform/turns.ts';

const long = 60_000;

describe('turns', () => {
  it('are taken by so many at a time, the others in the order in which they came', async () => {
    const turns = createTurns(2);
    const order: number[] = [];
    let running = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 9 }, async (_, index) => {
        const end = await turns.take(long);
        running += 1;
        most = Math.max(most, running);
        order.push(index);
        await sleep(index % 3);
        running -= 1;
        end?.();
      }),
    );
    expect(most).toBe(2);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('that do not come in time do not come later either', async () => {
    const turns = createTurns(1);
    const end = await turns.take(long);
    expect(await turns.take(5)).toBeNull();
    const next = turns.take(long);
    end?.();
    expect(await next).toBeTypeOf('function');
  });

  it('end once', async () => {
    const turns = createTurns(1);
    const end = await turns.take(long);
    end?.();
    end?.();
    expect(await turns.take(long)).toBeTypeOf('function');
    expect(await turns.take(5)).toBeNull();
  });
});
