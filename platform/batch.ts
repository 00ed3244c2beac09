/**
 * Runs items in batches (group commit). Items that arrive while a batch is running wait for the
 * next batch, and each batch is one SQL statement. A single item does not wait; simultaneous items
 * share one round trip and one commit.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { assert } from '../domain/errors.ts';
import { withoutCorrelation } from './logger.ts';
import { isConflict, isDatabaseUnavailable, isLockTimeout } from './database.ts';
import type { Metrics } from './metrics.ts';

interface BatcherOptions<Item, Answer> {
  /** Value of the label `batch` in the metrics of these batches. */
  name: string;
  /** Metrics of the process; absent in command-line tools. */
  metrics?: Metrics | undefined;
  /** Runs a batch. Returns the results in the order of the items. */
  run: (items: Item[]) => Promise<Answer[]>;
  /** Maximum number of items in a batch. */
  sizeMax: number;
  /** Maximum number of batches that run at the same time. */
  parallelMax: number;
  /**
   * Returns the group of an item. `run` locks the rows of each group with a short lock timeout. If
   * another transaction has locked the rows of a group, the items of that group are retried
   * separately, and the other items run without them. Omit if items share no locks.
   */
  getGroup?: (item: Item) => string;
}

interface QueuedItem<Item, Answer> {
  item: Item;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
}

/** Pause between retries of a locked group. Its items hold no connection during the pause. */
const lockedPauseMs = 100;
/** Maximum time for which a locked group is retried. It is the time limit of a statement. */
const lockedMaxMs = 10_000;

type Batch<Item, Answer> = QueuedItem<Item, Answer>[];

/**
 * Creates a function that takes one item and returns its result. Items run in batches. If a batch
 * fails, each of its items runs alone, so that only the invalid items fail.
 */
export function createBatcher<Item, Answer>(
  options: BatcherOptions<Item, Answer>,
): (item: Item) => Promise<Answer> {
  const batcher = new Batcher(options);
  return (item) => batcher.add(item);
}

class Batcher<Item, Answer> {
  readonly #options: BatcherOptions<Item, Answer>;
  readonly #getGroup: (item: Item) => string;
  readonly #lockedGroups = new Set<string>();
  #waiting: Batch<Item, Answer> = [];
  #runningBatches = 0;
  #isScheduled = false;

  constructor(options: BatcherOptions<Item, Answer>) {
    this.#options = options;
    this.#getGroup = options.getGroup ?? (() => '');
  }

  add(item: Item): Promise<Answer> {
    return new Promise<Answer>((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      // Items that arrive in the same turn of the event loop share the first batch.
      if (this.#isScheduled || this.#runningBatches >= this.#options.parallelMax) return;
      this.#isScheduled = true;
      // The batch runs without correlation ids, because it contains items of several organizations
      // and must not wait for the fair share of one of them.
      withoutCorrelation(() => queueMicrotask(() => this.#startBatches()));
    });
  }

  #startBatches(): void {
    this.#isScheduled = false;
    while (this.#waiting.length > 0 && this.#runningBatches < this.#options.parallelMax) {
      const batch = this.#takeBatch();
      if (batch.length === 0) return;
      void this.#runBatch(batch);
    }
  }

  /** Removes the next batch from the queue. Items whose group is locked stay in the queue. */
  #takeBatch(): Batch<Item, Answer> {
    const unlocked = this.#waiting.filter(
      ({ item }) => !this.#lockedGroups.has(this.#getGroup(item)),
    );
    const batch = unlocked.slice(0, this.#options.sizeMax);
    const taken = new Set(batch);
    this.#waiting = this.#waiting.filter((entry) => !taken.has(entry));
    return batch;
  }

  async #runBatch(batch: Batch<Item, Answer>): Promise<void> {
    this.#runningBatches += 1;
    this.#options.metrics?.batchSize.observe({ batch: this.#options.name }, batch.length);
    await this.#runOrSplit(batch);
    this.#runningBatches -= 1;
    this.#startBatches();
  }

  /** Runs a batch and resolves its items. */
  async #resolve(batch: Batch<Item, Answer>): Promise<void> {
    const answers = await this.#options.run(batch.map((entry) => entry.item));
    assert(answers.length === batch.length, 'a batch must return one result per item');
    for (const [index, answer] of answers.entries()) batch[index]?.resolve(answer);
  }

  /** Runs a batch. If it fails, runs its groups or items separately, or rejects its items. */
  async #runOrSplit(batch: Batch<Item, Answer>): Promise<void> {
    try {
      await this.#resolve(batch);
    } catch (error) {
      if (isLockTimeout(error)) this.#splitByGroup(batch);
      // If the database is unreachable, running each item alone would only wait for it again.
      else if (batch.length === 1 || isOutage(error)) rejectAll(batch, error);
      else await Promise.all(batch.map((entry) => this.#runOrSplit([entry])));
    }
  }

  /**
   * Runs each group of a batch separately, after the batch failed because another transaction locks
   * the rows of at least one group. Does not wait for the results, so that other batches can run.
   */
  #splitByGroup(batch: Batch<Item, Answer>): void {
    for (const [group, entries] of Map.groupBy(batch, ({ item }) => this.#getGroup(item))) {
      this.#lockedGroups.add(group);
      void this.#retryWhileLocked(entries).finally(() => {
        this.#lockedGroups.delete(group);
        this.#startBatches();
      });
    }
  }

  /** Retries the items of one group while it is locked. */
  async #retryWhileLocked(batch: Batch<Item, Answer>): Promise<void> {
    const startedAtMs = performance.now();
    for (;;) {
      try {
        await this.#resolve(batch);
        return;
      } catch (error) {
        if (!isLockTimeout(error)) {
          if (batch.length === 1 || isOutage(error)) rejectAll(batch, error);
          else await Promise.all(batch.map((entry) => this.#retryWhileLocked([entry])));
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

/** Returns whether the database is unavailable to every item of a batch. */
const isOutage = (error: unknown): boolean => isDatabaseUnavailable(error) && !isConflict(error);

function rejectAll(batch: Batch<unknown, never>, error: unknown): void {
  for (const { reject } of batch) reject(error);
}
