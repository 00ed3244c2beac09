/**
 * Background work: passes that repeat, passes that only one process runs at a time, and items that
 * fail without ending their pass.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { parseDatabaseUrl } from './database-url.ts';
import type { Logger } from './logger.ts';

/**
 * Result of a run over many items. `done`: number of completed items; `skipped`: number of items
 * that failed or were skipped. The next run handles these again.
 */
export interface IsolationReport {
  done: number;
  skipped: number;
}

interface IsolationOptions {
  /** Name of the items in log lines, such as `reservation` or `upload`. */
  subject: string;
  logger: Logger;
}

/**
 * Maximum total time that failed items may take. After that, the remaining items are skipped,
 * because an unreachable server would probably delay all of them.
 */
const failedMaxMs = 10_000;

/**
 * Runs a function for one item after the other. Logs the `id` of a failed item and continues with
 * the next one. Skips the remaining items once failed items have taken too long in total.
 */
export async function forEachIsolated<Item extends { readonly id: string }>(
  items: readonly Item[],
  run: (item: Item) => Promise<unknown>,
  { subject, logger }: IsolationOptions,
): Promise<IsolationReport> {
  const report: IsolationReport = { done: 0, skipped: 0 };
  let failedMs = 0;
  for (const [index, item] of items.entries()) {
    const startedAtMs = performance.now();
    try {
      await run(item);
      report.done += 1;
    } catch (error) {
      report.skipped += 1;
      failedMs += performance.now() - startedAtMs;
      logger.warn({ error, subject, subjectId: item.id }, 'sweeper.skipped');
      if (failedMs < failedMaxMs) continue;
      report.skipped += items.length - index - 1;
      return report;
    }
  }
  return report;
}

interface RepeatOptions {
  /** Milliseconds between the end of a run and the start of the next run. */
  intervalMs: number;
  /** Milliseconds before the first run. By default, the first run starts immediately. */
  firstAfterMs?: number;
}

/**
 * Runs a task repeatedly. The task must handle its own errors. Returns a function that stops the
 * repetition, aborts the signal of the current run and waits for its end.
 */
export function repeat(
  task: (signal: AbortSignal) => Promise<void>,
  options: RepeatOptions,
): () => Promise<void> {
  const stopController = new AbortController();
  const { signal } = stopController;
  const wait = async (waitMs: number): Promise<void> => {
    await delay(waitMs, undefined, { signal, ref: false }).catch(() => {});
  };
  const loop = (async () => {
    if (options.firstAfterMs !== undefined) await wait(options.firstAfterMs);
    while (!signal.aborted) {
      await task(signal);
      await wait(options.intervalMs);
    }
  })();
  return async () => {
    stopController.abort();
    await loop;
  };
}

/**
 * Runs a pass, unless another process runs a pass of this name. The lock belongs to a transaction of
 * a connection of its own, so that it also works over a pooler, and ends with the process. If the
 * connection is lost, the signal of the pass is aborted.
 * @returns whether the pass ran
 * @throws the errors of the pass and of the connection
 */
export async function runAlone(
  { databaseUrl, name, signal }: { databaseUrl: string; name: string; signal: AbortSignal },
  pass: (signal: AbortSignal) => Promise<void>,
): Promise<boolean> {
  const client = new Client({ ...parseDatabaseUrl(databaseUrl), connectionTimeoutMillis: 5000 });
  const lost = new AbortController();
  client.on('error', (error) => lost.abort(error));
  client.on('end', () => lost.abort());
  await client.connect();
  try {
    await client.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
    const { rows } = await client.query<{ held: boolean }>(
      'SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS held',
      [`pass ${name}`],
    );
    if (rows[0]?.held !== true) return false;
    await pass(AbortSignal.any([signal, lost.signal]));
    return true;
  } finally {
    await client.end();
  }
}
