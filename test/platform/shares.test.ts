import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createShares, type Shares } from '../../platform/shares.ts';

const long = 60_000;

describe('a fair share', () => {
  it('is half of the slots for one owner, and as many as stay free for each of several', () => {
    const share = createShares(12);
    const countTasks = (owner: string): number => {
      let count = 0;
      while (share.take(owner)) count += 1;
      return count;
    };
    expect(['a', 'b', 'c', 'd', 'e'].map(countTasks)).toEqual([6, 3, 2, 1, 0]);
  });

  it('is at least one slot while any is free, and its slots are released once', () => {
    const share = createShares(1);
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
    const limiter = createShares(4);
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
    const limiter = createShares(4);
    const busy = Array.from({ length: 9 }, () => limiter.enter('busy', long));
    expect(await limiter.enter('modest', 5)).toBeTypeOf('function');
    const [first] = busy;
    (await first)?.();
    expect(await Promise.race([busy[2], sleep(50)])).toBeTypeOf('function');
  });

  it('alternate between owners', async () => {
    const limiter = createShares(1);
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
    const limiter = createShares(1);
    const leave = await limiter.enter('crane', long);
    expect(await limiter.enter('crane', 5)).toBeNull();
    const next = limiter.enter('crane', long);
    leave?.();
    expect(await next).toBeTypeOf('function');
  });
});

/** Holds bytes one by one until a bound is exceeded; returns their number and the bound. */
function fill(shares: Shares, owner: string): [number, string] {
  const hold = shares.open(owner);
  for (let bytes = 0; ; bytes += 1) {
    const exceeded = hold.add(1);
    if (exceeded) return [bytes, exceeded];
  }
}

describe('the shares of bytes', () => {
  it('allows one owner half, and each next owner half of the free bytes', () => {
    const shares = createShares(1000);
    expect(['a', 'b', 'c', 'd'].map((owner) => fill(shares, owner))).toEqual([
      [500, 'owner'],
      [250, 'free'],
      [125, 'free'],
      [63, 'free'],
    ]);
  });

  it('accepts small requests of an owner although other owners use all the rest', () => {
    const shares = createShares(1000, 10);
    for (let owner = 0; owner < 50; owner += 1) shares.open(`owner ${owner}`).add(1000 / 2);
    for (let owner = 0; owner < 50; owner += 1) fill(shares, `owner ${owner}`);
    const small = shares.open('small');
    expect([small.add(10), small.add(1)]).toEqual([null, 'free']);
    // The small holds of one owner are bounded by its half.
    const many = Array.from({ length: 60 }, () => shares.open('many').add(10));
    expect(many.filter((exceeded) => exceeded === null)).toHaveLength(50);
    expect(many.at(-1)).toBe('owner');
  });

  it('has free bytes again after a release', () => {
    const shares = createShares(10);
    const hold = shares.open('a');
    expect([hold.add(5), hold.add(1)]).toEqual([null, 'owner']);
    hold.release();
    expect(hold.add(5)).toBeNull();
  });
});
