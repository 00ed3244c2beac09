/**
 * The sweeper: settles what crashes have left open, deletes what has expired, and starts what was
 * not started.
 */
import type { Client } from '@temporalio/client';
import type { WebhookRelay } from '../webhooks/relay.ts';
import type { Services } from '../activities/services.ts';
import type { Config } from '../platform/config.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import { missingGraceMs, sweepReservations } from './reservation-sweep.ts';

interface SweeperDeps {
  config: Config;
  services: Services;
  client: Client;
  /** Registers the search attributes again on a Temporal server that has lost its state. */
  prepareServer: () => Promise<void>;
  webhookRelay: WebhookRelay;
}

const emptyReport = {
  extended: 0,
  missing: 0,
  released: 0,
  /** Webhooks whose delivery was started again, because no workflow was running it. */
  webhooks: 0,
  /** Chats of a dead API process, settled by their last checkpoint. */
  chats: 0,
  /** Reservations, uploads and webhooks that failed in this pass. */
  skipped: 0,
  /** Steps that failed as a whole. */
  failed: 0,
};
/** Result of one pass. */
type SweepReport = typeof emptyReport;

/**
 * Retention of Idempotency-Keys, longer than the 24 hours that callers are promised and than any
 * job.
 */
const claimsKeptFor = '48 hours';

/**
 * Runs one pass; several processes may do so at once. A step that fails does not stop the others.
 */
export async function sweep(deps: SweeperDeps): Promise<SweepReport> {
  const { services } = deps;
  const report: SweepReport = { ...emptyReport };
  async function step(name: string, run: () => Promise<unknown>): Promise<void> {
    try {
      await run();
    } catch (error) {
      report.failed += 1;
      services.logger.warn({ error, step: name }, 'sweeper.step_failed');
    }
  }
  // Steps that need only Postgres run first, because requests to an unreachable Temporal take long.
  await step('chats', async () => {
    report.chats = await sweepChats(deps);
  });
  await step('uploads', async () => {
    report.skipped += (await services.uploads.sweep()).skipped;
  });
  await step('media', () => services.storedFiles.sweep());
  await step('copies', () => services.copies.sweep());
  await step('claims', () => forgetClaims(services.pool));
  await step('account notices', () => services.accountNotices.make());
  await step('reservations', async () => {
    const { skipped, ...decisions } = await sweepReservations(deps);
    Object.assign(report, decisions);
    report.skipped += skipped;
  });
  await step('webhooks', async () => {
    const { done, skipped } = await deps.webhookRelay.resume();
    report.webhooks = done;
    report.skipped += skipped;
  });
  await step('server', deps.prepareServer);
  return report;
}

async function sweepChats({ services, config }: SweeperDeps): Promise<number> {
  const swept = await services.chatLedger.sweep({
    graceMs: Math.min(missingGraceMs, config.CHAT_RESERVATION_TTL_MS),
    everyMs: config.SWEEP_INTERVAL_MS,
  });
  for (const { id, state, charged } of swept) {
    services.logger.warn({ chatId: id, state, charged }, 'sweeper.chat_settled');
  }
  return swept.length;
}

/** Deletes expired Idempotency-Keys with the responses of chats that they keep. */
async function forgetClaims(pool: DatabasePool): Promise<void> {
  await pool.query(command`DELETE FROM idempotency_claim
    WHERE (organization_id, idempotency_key) IN (
      SELECT organization_id, idempotency_key FROM idempotency_claim
      WHERE created_at < clock_timestamp() - ${claimsKeptFor}::interval
      ORDER BY created_at LIMIT 1000)`);
}
