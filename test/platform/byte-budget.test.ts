import { describe, expect, it } from 'vitest';
import { createByteBudget, type ByteBudget } from '../../platform/byte-budget.ts';

/** Holds bytes one by one until a bound is exceeded; returns their number and the bound. */
function fill(budget: ByteBudget, owner: string): [number, string] {
  const hold = budget.open(owner);
  for (let bytes = 0; ; bytes += 1) {
    const exceeded = hold.add(1);
    if (exceeded) return [bytes, exceeded];
  }
}

describe('a byte budget', () => {
  it('allows one owner half, and each next owner half of the free bytes', () => {
    const budget = createByteBudget({ bytesMax: 1000 });
    expect(['a', 'b', 'c', 'd'].map((owner) => fill(budget, owner))).toEqual([
      [500, 'owner'],
      [250, 'free'],
      [125, 'free'],
      [62, 'free'],
    ]);
  });

  it('accepts small requests of an owner although other owners use all the rest', () => {
    const budget = createByteBudget({ bytesMax: 1000, smallMax: 10 });
    for (let owner = 0; owner < 50; owner += 1) budget.open(`owner ${owner}`).add(1000 / 2);
    for (let owner = 0; owner < 50; owner += 1) fill(budget, `owner ${owner}`);
    const small = budget.open('small');
    expect([small.add(10), small.add(1)]).toEqual([null, 'free']);
    // The small holds of one owner are bounded by its half.
    const many = Array.from({ length: 60 }, () => budget.open('many').add(10));
    expect(many.filter((exceeded) => exceeded === null)).toHaveLength(50);
    expect(many.at(-1)).toBe('owner');
  });

  it('has free bytes again after a release', () => {
    const budget = createByteBudget({ bytesMax: 10 });
    const hold = budget.open('a');
    expect([hold.add(5), hold.add(1)]).toEqual([null, 'owner']);
    hold.release();
    expect(hold.add(5)).toBeNull();
  });
});
