/** A number about the last second or two: what is worth preparing for. */

const periodMs = 1000;

/** Merges what is noted over this period and the one before, e.g. by adding or by `Math.max`. */
export class RecentDemand {
  readonly #merge: (a: number, b: number) => number;
  #startedAtMs = 0;
  #now = 0;
  #before = 0;

  constructor(merge: (a: number, b: number) => number) {
    this.#merge = merge;
  }

  /** Notes a value; `nowMs` by any clock that never goes back. */
  note(value: number, nowMs: number): void {
    this.#turn(nowMs);
    this.#now = this.#merge(this.#now, value);
  }

  /** The higher of the two periods; 0 where nothing was noted. */
  value(nowMs: number): number {
    this.#turn(nowMs);
    return Math.max(this.#now, this.#before);
  }

  #turn(nowMs: number): void {
    const passedMs = nowMs - this.#startedAtMs;
    if (passedMs < periodMs) return;
    this.#before = passedMs < 2 * periodMs ? this.#now : 0;
    this.#now = 0;
    this.#startedAtMs = nowMs;
  }
}

/** How often: notes are added up. */
export function recentCount(): RecentDemand {
  return new RecentDemand((a, b) => a + b);
}

/** How much at most. */
export function recentMaximum(): RecentDemand {
  return new RecentDemand((a, b) => (a > b ? a : b));
}
