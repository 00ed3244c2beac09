/** The search for the highest rate ends near it, wherever it begins and whatever it is. */
import { expect, it } from 'vitest';
import { heldRate, nextRate } from '../../dev/bench/measurement.ts';

function search(first: number, limit: number): { rates: number[]; held: number } {
  const tried: { rate: number; held: boolean }[] = [];
  for (let rate = nextRate(first, tried); rate !== null; rate = nextRate(first, tried)) {
    tried.push({ rate, held: rate <= limit });
  }
  return { rates: tried.map(({ rate }) => rate), held: heldRate(tried) };
}

it.each([
  { first: 8, limit: 14, held: 14, rates: [8, 10, 12, 14, 17, 16, 15] },
  { first: 8, limit: 3, held: 3, rates: [8, 4, 2, 3] },
  { first: 1, limit: 0, held: 0, rates: [1] },
  { first: 100, limit: 200, held: 200, rates: [100, 120, 144, 173, 208, 191, 200] },
])('finds the limit $limit from $first on', ({ first, limit, held, rates }) => {
  expect(search(first, limit)).toEqual({ held, rates });
});

it('does not take a rate for held that is above one that was not', () => {
  const tried = [
    { rate: 8, held: true },
    { rate: 10, held: false },
    { rate: 12, held: true },
  ];
  expect(heldRate(tried)).toBe(8);
});
