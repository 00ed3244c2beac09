/**
 * Group commit: while one batch is on its way the next one queues, and a batch is one statement. One
 * request alone waits for nothing; many at once share a round trip and a commit.
 */

import { assert } from '../domain/errors.ts';
import { isDatabaseAway } from './database.ts';
import type { Metrics } from './metrics.ts';

interface BatcherOptions<Item, Answer> {
  /** Names it in the metrics. */
  name: string;
  /** Absent in tools, which nobody scrapes. */
  metrics?: Metrics | undefined;
  /** Runs a batch; answers in the order of the items. */
  run: (items: Item[]) => Promise<Answer[]>;
  sizeMax: number;
  /** Batches on their way at the same time. */
  parallelMax: number;
}

interface Waiting<Item, Answer> {
  item: Item;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
}

/**
 * Makes a function that answers one item, run in batches. When a batch of several fails, each of its
 * items is run alone, so that one poisonous item fails by itself.
 */
export function createBatcher<Item, Answer>(
  options: BatcherOptions<Item, Answer>,
): (item: Item) => Promise<Answer> {
  const waiting: Waiting<Item, Answer>[] = [];
  let underWay = 0;
  let scheduled = false;

  async function settle(batch: Waiting<Item, Answer>[]): Promise<void> {
    try {
      const answers = await options.run(batch.map((entry) => entry.item));
      assert(answers.length === batch.length, 'a batch is answered item by item');
      for (const [index, answer] of answers.entries()) batch[index]?.resolve(answer);
    } catch (error) {
      // Alone they would wait for a database that is away once more, and all at the same time.
      if (batch.length === 1 || isDatabaseAway(error))
        for (const { reject } of batch) reject(error);
      else await Promise.all(batch.map((entry) => settle([entry])));
    }
  }

  async function send(): Promise<void> {
    underWay += 1;
    const batch = waiting.splice(0, options.sizeMax);
    options.metrics?.batchSize.observe({ batch: options.name }, batch.length);
    await settle(batch);
    underWay -= 1;
    pump();
  }

  function pump(): void {
    scheduled = false;
    while (waiting.length > 0 && underWay < options.parallelMax) void send();
  }

  return (item) =>
    new Promise<Answer>((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      // Items that arrive in the same turn of the event loop share the first batch.
      if (!scheduled && underWay < options.parallelMax) {
        scheduled = true;
        queueMicrotask(pump);
      }
    });
}
