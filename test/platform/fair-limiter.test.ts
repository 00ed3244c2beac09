import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createFairLimiter } from '../../platform/fair-limiter.ts';

const long = 60_000;

describe('the places of a fair limiter', () => {
  it('are taken by so many at a time, the others in the order in which they came', async () => {
    const limiter = createFairLimiter(2);
    const order: number[] = [];
    let running = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 9 }, async (_, index) => {
        const end = await limiter.enter('crane', long);
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
    const limiter = createFairLimiter(1);
    const order: string[] = [];
    const first = await limiter.enter('busy', long);
    const taking = ['busy', 'busy', 'busy', 'modest', 'modest', 'third'].map(async (who) => {
      const end = await limiter.enter(who, long);
      order.push(who);
      end?.();
    });
    first?.();
    await Promise.all(taking);
    expect(order).toEqual(['busy', 'modest', 'third', 'busy', 'modest', 'busy']);
  });

  it('that do not come in time do not come later either', async () => {
    const limiter = createFairLimiter(1);
    const end = await limiter.enter('crane', long);
    expect(await limiter.enter('crane', 5)).toBeNull();
    const next = limiter.enter('crane', long);
    end?.();
    expect(await next).toBeTypeOf('function');
  });

  it('are left once', async () => {
    const limiter = createFairLimiter(1);
    const end = await limiter.enter('crane', long);
    end?.();
    end?.();
    expect(await limiter.enter('crane', long)).toBeTypeOf('function');
    expect(await limiter.enter('crane', 5)).toBeNull();
  });
});
