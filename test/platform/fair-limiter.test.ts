import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createFairLimiter } from '../../platform/fair-limiter.ts';
import { createFairShare } from '../../platform/fair-share.ts';

const long = 60_000;

describe('a fair share', () => {
  it('is half of the slots for one owner, and as many as stay free for each of several', () => {
    const share = createFairShare(12);
    const countTasks = (owner: string): number => {
      let count = 0;
      while (share.take(owner)) count += 1;
      return count;
    };
    expect(['a', 'b', 'c', 'd', 'e'].map(countTasks)).toEqual([6, 3, 2, 1, 0]);
  });

  it('is held by an owner with at least half of the slots', () => {
    const share = createFairShare(3);
    share.take('a');
    expect(share.holdsHalf('a')).toBe(false);
    share.take('a');
    expect(share.holdsHalf('a')).toBe(true);
    share.take('b');
    expect([share.take('b'), share.holdsHalf('b')]).toEqual([null, false]);
  });

  it('is at least one slot while any is free, and its slots are released once', () => {
    const share = createFairShare(1);
    const release = share.take('a');
    expect(share.take('b')).toBeNull();
    release?.();
    const again = share.take('b');
    release?.();
    expect(share.take('a')).toBeNull();
    again?.();
    expect(share.take('a')).toBeTypeOf('function');
  });
});

describe('the slots of a fair limiter', () => {
  it('are held by at most that number of tasks, in each owner’s order', async () => {
    const limiter = createFairLimiter(4);
    const order: number[] = [];
    let running = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 9 }, async (_, index) => {
        const leave = await limiter.enter('crane', long);
        running += 1;
        most = Math.max(most, running);
        order.push(index);
        await sleep(index % 3);
        running -= 1;
        leave?.();
      }),
    );
    expect(most).toBe(2);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('leave room for another owner, although one has many waiting tasks', async () => {
    const limiter = createFairLimiter(4);
    const busy = Array.from({ length: 9 }, () => limiter.enter('busy', long));
    expect(await limiter.enter('modest', 5)).toBeTypeOf('function');
    const [first] = busy;
    (await first)?.();
    expect(await Promise.race([busy[2], sleep(50)])).toBeTypeOf('function');
  });

  it('alternate between owners', async () => {
    const limiter = createFairLimiter(1);
    const order: string[] = [];
    const first = await limiter.enter('busy', long);
    const taking = ['busy', 'busy', 'busy', 'modest', 'modest', 'third'].map(async (owner) => {
      const leave = await limiter.enter(owner, long);
      order.push(owner);
      leave?.();
    });
    first?.();
    await Promise.all(taking);
    expect(order).toEqual(['busy', 'modest', 'third', 'busy', 'modest', 'busy']);
  });

  it('are not granted after the wait timed out', async () => {
    const limiter = createFairLimiter(1);
    const leave = await limiter.enter('crane', long);
    expect(await limiter.enter('crane', 5)).toBeNull();
    const next = limiter.enter('crane', long);
    leave?.();
    expect(await next).toBeTypeOf('function');
  });
});
