/**
 * Group commit: items that arrive while a batch is running wait for the next batch, and each batch
 * is one statement. A single request does not wait; simultaneous requests share a round trip and a
 * commit.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { assert } from '../domain/errors.ts';
import { withoutCorrelation } from './correlation.ts';
import { isDatabaseAway, isLockTimeout } from './database-errors.ts';
import type { Metrics } from './metrics.ts';

interface BatcherOptions<Item, Answer> {
  /** Label of the batches in the metrics. */
  name: string;
  /** Metrics of the process; absent in tools. */
  metrics?: Metrics | undefined;
  /** Runs a batch; returns the answers in the order of the items. */
  run: (items: Item[]) => Promise<Answer[]>;
  /** Maximum number of items of a batch. */
  sizeMax: number;
  /** Maximum number of batches that run at the same time. */
  parallelMax: number;
  /**
   * Returns the group of an item, whose rows `run` locks with a short lock timeout. If a group is
   * locked elsewhere, its items wait alone and the other items of the batch run without them.
   * Absent: items share no locks.
   */
  groupOf?: (item: Item) => string;
}

interface Waiting<Item, Answer> {
  item: Item;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
}

/**
 * Pause before the items of a locked group are retried; they hold no connection during the pause.
 */
const lockedPauseMs = 100;
/** Time after which the items of a locked group fail, as long as the time limit of a statement. */
const lockedMaxMs = 10_000;

type Batch<Item, Answer> = Waiting<Item, Answer>[];

/**
 * Makes a function that returns the result of one item; the items run in batches. If a batch of
 * several items fails, each of them runs alone, so that only the invalid item fails.
 */
export function createBatcher<Item, Answer>(
  options: BatcherOptions<Item, Answer>,
): (item: Item) => Promise<Answer> {
  const batcher = new Batcher(options);
  return (item) => batcher.add(item);
}

class Batcher<Item, Answer> {
  readonly #options: BatcherOptions<Item, Answer>;
  readonly #groupOf: (item: Item) => string;
  readonly #lockedGroups = new Set<string>();
  #waiting: Batch<Item, Answer> = [];
  #underWay = 0;
  #scheduled = false;

  constructor(options: BatcherOptions<Item, Answer>) {
    this.#options = options;
    this.#groupOf = options.groupOf ?? (() => '');
  }

  add(item: Item): Promise<Answer> {
    return new Promise<Answer>((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      // Items that arrive in the same turn of the event loop share the first batch.
      if (this.#scheduled || this.#underWay >= this.#options.parallelMax) return;
      this.#scheduled = true;
      // A batch contains items of several organizations, so it must not run as one of them and wait
      // for its fair share.
      withoutCorrelation(() => queueMicrotask(() => this.#pump()));
    });
  }

  #pump(): void {
    this.#scheduled = false;
    while (this.#waiting.length > 0 && this.#underWay < this.#options.parallelMax) {
      const batch = this.#take();
      if (batch.length === 0) return;
      void this.#send(batch);
    }
  }

  /** Removes from the queue and returns the next items whose group is not locked. */
  #take(): Batch<Item, Answer> {
    const free = this.#waiting.filter(({ item }) => !this.#lockedGroups.has(this.#groupOf(item)));
    const batch = free.slice(0, this.#options.sizeMax);
    const chosen = new Set(batch);
    this.#waiting = this.#waiting.filter((entry) => !chosen.has(entry));
    return batch;
  }

  async #send(batch: Batch<Item, Answer>): Promise<void> {
    this.#underWay += 1;
    this.#options.metrics?.batchSize.observe({ batch: this.#options.name }, batch.length);
    await this.#settle(batch);
    this.#underWay -= 1;
    this.#pump();
  }

  async #run(batch: Batch<Item, Answer>): Promise<void> {
    const answers = await this.#options.run(batch.map((entry) => entry.item));
    assert(answers.length === batch.length, 'a batch is answered item by item');
    for (const [index, answer] of answers.entries()) batch[index]?.resolve(answer);
  }

  async #settle(batch: Batch<Item, Answer>): Promise<void> {
    try {
      await this.#run(batch);
    } catch (error) {
      if (isLockTimeout(error)) this.#splitByGroup(batch);
      // If the database is unreachable, running each item alone would only wait for it again.
      else if (batch.length === 1 || isDatabaseAway(error)) rejectAll(batch, error);
      else await Promise.all(batch.map((entry) => this.#settle([entry])));
    }
  }

  /** Runs each group of a batch by itself in the background, because one of them is locked. */
  #splitByGroup(batch: Batch<Item, Answer>): void {
    for (const [group, entries] of Map.groupBy(batch, ({ item }) => this.#groupOf(item))) {
      this.#lockedGroups.add(group);
      void this.#settleGroup(entries).finally(() => {
        this.#lockedGroups.delete(group);
        this.#pump();
      });
    }
  }

  /** Runs the items of one group until it is not locked any more. */
  async #settleGroup(batch: Batch<Item, Answer>): Promise<void> {
    const startedAtMs = performance.now();
    for (;;) {
      try {
        await this.#run(batch);
        return;
      } catch (error) {
        if (!isLockTimeout(error)) {
          if (batch.length === 1) rejectAll(batch, error);
          else await Promise.all(batch.map((entry) => this.#settleGroup([entry])));
          return;
        }
        if (performance.now() - startedAtMs > lockedMaxMs) {
          rejectAll(batch, error);
          return;
        }
        await sleep(lockedPauseMs);
      }
    }
  }
}

function rejectAll(batch: Batch<unknown, never>, error: unknown): void {
  for (const { reject } of batch) reject(error);
}
