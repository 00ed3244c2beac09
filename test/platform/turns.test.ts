import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createTurns } from '../../platform/turns.ts';

const long = 60_000;

describe('turns', () => {
  it('are taken by so many at a time, the others in the order in which they came', async () => {
    const turns = createTurns({ atOnceMax: 2, slowMs: long });
    const order: number[] = [];
    let running = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 9 }, async (_, index) => {
        const end = await turns.take('crane', long);
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

  it('go round: whoever waits for many lets the others in between', async () => {
    const turns = createTurns({ atOnceMax: 1, slowMs: long });
    const order: string[] = [];
    const first = await turns.take('busy', long);
    const taking = ['busy', 'busy', 'busy', 'modest', 'modest', 'third'].map(async (who) => {
      const end = await turns.take(who, long);
      order.push(who);
      end?.();
    });
    first?.();
    await Promise.all(taking);
    expect(order).toEqual(['busy', 'modest', 'third', 'busy', 'modest', 'busy']);
  });

  it('that do not come in time do not come later either', async () => {
    const turns = createTurns({ atOnceMax: 1, slowMs: long });
    const end = await turns.take('crane', long);
    expect(await turns.take('crane', 5)).toBeNull();
    const next = turns.take('crane', long);
    end?.();
    expect(await next).toBeTypeOf('function');
  });

  it('end once', async () => {
    const turns = createTurns({ atOnceMax: 1, slowMs: long });
    const end = await turns.take('crane', long);
    end?.();
    end?.();
    expect(await turns.take('crane', long)).toBeTypeOf('function');
    expect(await turns.take('crane', 5)).toBeNull();
  });
});

describe('how many turns at a time', () => {
  /** How many are given at once, without any that ends. */
  async function givenAtOnce(turns: ReturnType<typeof createTurns>): Promise<number> {
    const given = await Promise.all(Array.from({ length: 80 }, () => turns.take('crane', 20)));
    for (const end of given) end?.();
    return given.filter((end) => end !== null).length;
  }

  it('grows to the most allowed while turns are quick and others wait', async () => {
    const turns = createTurns({ atOnceMax: 64, slowMs: long });
    expect(await givenAtOnce(turns)).toBe(16);
    await Promise.all(
      Array.from({ length: 200 }, async () => {
        const end = await turns.take('crane', long);
        await sleep(1);
        end?.();
      }),
    );
    expect(await givenAtOnce(turns)).toBe(64);
  });

  it('shrinks while they are slow, never to none, and once for all that were slow together', async () => {
    const turns = createTurns({ atOnceMax: 64, slowMs: 10 });
    // Each look holds its turns for 20 ms: they all were slow.
    expect(await givenAtOnce(turns)).toBe(16);
    expect(await givenAtOnce(turns)).toBe(11);
    expect(await givenAtOnce(turns)).toBe(7);
    for (let look = 0; look < 6; look += 1) await givenAtOnce(turns);
    expect(await givenAtOnce(turns)).toBe(2);
  });
});
