/**
 * The sweeper does not trust Temporal: it asks for every open reservation, when its time has come,
 * whether a workflow still owns it, and settles what terminated, wiped or lost workflows left behind.
 */
import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import type { NotificationRelay } from '../activities/notification-relay.ts';
import type { Services } from '../activities/services.ts';
import type { Config } from '../platform/config.ts';
import { workflowIdOf } from '../workflows/contract.ts';

interface SweeperDeps {
  config: Config;
  services: Services;
  client: Client;
  relay: NotificationRelay;
}

/** What one pass found. */
export interface SweepReport {
  extended: number;
  missing: number;
  released: number;
  redelivered: number;
}

/** The sweeper of a worker process. */
export interface Sweeper {
  /** One pass; safe to run in several processes at once. */
  sweep: () => Promise<SweepReport>;
  /** Sweeps again and again until stopped. */
  start: () => () => Promise<void>;
}

const due = z.object({
  id: z.string(),
  organization_id: z.string(),
  missing_for_ms: z.number().nullable(),
});
type Due = z.infer<typeof due>;

/** A workflow must be gone for this long: a server that restores itself may forget it for a moment. */
const missingGraceMs = 30_000;

/** See `Sweeper`. */
export function createSweeper(deps: SweeperDeps): Sweeper {
  const { services, config } = deps;
  const { pool, logger, ledger } = services;

  async function ownerOf(id: string): Promise<'running' | 'closed' | 'missing'> {
    try {
      const { status } = await deps.client.workflow.getHandle(workflowIdOf(id)).describe();
      return status.name === 'RUNNING' || status.name === 'PAUSED' ? 'running' : 'closed';
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return 'missing';
      throw error;
    }
  }

  async function postpone(entry: Due, delayMs: number, missing: boolean): Promise<void> {
    await pool.query(sql.type(z.object({}))`UPDATE reservation SET
      expires_at = clock_timestamp() + ${delayMs} * interval '1 millisecond',
      owner_missing_at = CASE WHEN ${missing} THEN coalesce(owner_missing_at, clock_timestamp()) END
      WHERE id = ${entry.id} AND state = 'reserved'`);
  }

  async function release(entry: Due): Promise<void> {
    const settled = await ledger.settle({
      organizationId: entry.organization_id,
      id: entry.id,
      to: 'released',
      amountMicro: 0,
      reason: 'JOB_LOST',
      job: {
        status: 'failed',
        outputs: null,
        error: { code: 'JOB_LOST', message: 'The job ended abnormally. Nothing was charged.' },
        artifacts: [],
      },
    });
    logger.warn({ jobId: entry.id, verdict: settled.verdict }, 'sweeper.released');
  }

  async function settleOne(entry: Due): Promise<keyof SweepReport> {
    const owner = await ownerOf(entry.id);
    if (owner === 'running') {
      await postpone(entry, config.RESERVATION_TTL_MS, false);
      return 'extended';
    }
    const graceMs = Math.min(missingGraceMs, config.RESERVATION_TTL_MS);
    if (owner === 'missing' && (entry.missing_for_ms ?? 0) < graceMs) {
      await postpone(entry, entry.missing_for_ms === null ? graceMs : 1000, true);
      return 'missing';
    }
    await release(entry);
    return 'released';
  }

  async function sweep(): Promise<SweepReport> {
    const report: SweepReport = { extended: 0, missing: 0, released: 0, redelivered: 0 };
    report.redelivered = await deps.relay.redeliver();
    const entries = await pool.any(sql.type(due)`
      SELECT id, organization_id,
        (extract(epoch FROM clock_timestamp() - owner_missing_at) * 1000)::float8 AS missing_for_ms
      FROM reservation
      WHERE state = 'reserved' AND kind = 'studio' AND expires_at < clock_timestamp()
      ORDER BY expires_at LIMIT 100`);
    for (const entry of entries) {
      // oxlint-disable-next-line no-await-in-loop -- a sweep is never in a hurry
      const did = await settleOne(entry);
      report[did] += 1;
    }
    return report;
  }

  return {
    sweep,
    start() {
      let stopped = false;
      let wake: (() => void) | undefined;
      const running = (async () => {
        while (!stopped) {
          try {
            // oxlint-disable-next-line no-await-in-loop -- one pass after the other
            await sweep();
          } catch (error) {
            logger.warn({ error }, 'sweeper.pass_failed');
          }
          // oxlint-disable-next-line no-await-in-loop -- one pass after the other
          await new Promise<void>((resolve) => {
            wake = resolve;
            setTimeout(resolve, config.SWEEP_INTERVAL_MS).unref();
          });
        }
      })();
      return async () => {
        stopped = true;
        wake?.();
        await running;
      };
    },
  };
}
