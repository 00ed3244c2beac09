/** Quantiles, as every measurement here gives them. */

/** The nearest-rank quantile of sorted numbers; 0 when there are none. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}
