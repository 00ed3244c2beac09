/** The highest rate that a column holds, found by steps. */
import type { Cell } from './measurement.ts';

const lateMsMax = 1000;
/** A rate is known well enough when the next one that was tried and not held is so near. */
const nearness = 0.05;

/** Whether all jobs of a cell ended well, and nearly all were created soon and ended soon after their provider. */
export function isHeld({ jobs, refused, lost, untilCreatedMs, beyondMs }: Cell): boolean {
  const areAllWell = jobs > 0 && refused + lost === 0;
  return areAllWell && untilCreatedMs.p95 <= lateMsMax && beyondMs.p95 <= lateMsMax;
}

/**
 * The next rate to try: a fifth more until one is not held, then halves of what lies between.
 * @param tried rates and whether they were held, in any order
 * @returns null when the highest held rate is known to a job a second or a twentieth
 */
export function nextRate(
  first: number,
  tried: readonly { rate: number; held: boolean }[],
): number | null {
  if (tried.length === 0) return first;
  const held = heldRate(tried);
  const above = Math.min(...tried.filter((step) => !step.held).map(({ rate }) => rate));
  if (above === Infinity) return held + Math.max(1, Math.round(held / 5));
  if (above - held <= Math.max(1, held * nearness)) return null;
  return Math.round((held + above) / 2);
}

/** The highest rate below all that were not held; 0 when there is none. */
export function heldRate(tried: readonly { rate: number; held: boolean }[]): number {
  const above = Math.min(...tried.filter((step) => !step.held).map(({ rate }) => rate));
  return Math.max(
    0,
    ...tried.filter(({ rate, held }) => held && rate < above).map(({ rate }) => rate),
  );
}
