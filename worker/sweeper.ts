/**
 * Runs the sweeper: settles reservations that a crash has left open, deletes expired data, and
 * starts deliveries of webhooks that no workflow delivers.
 */
import type { Client } from '@temporalio/client';
import type { WebhookRelay } from '../webhooks/relay.ts';
import type { Services } from '../process/services.ts';
import type { ActionRuns } from '../studio/jobs/action-runs.ts';
import type { BulkWorkflows } from '../bulk/bulk-execution.ts';
import type { IsolationReport } from '../platform/background.ts';
import type { Config } from '../platform/config.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import { resetFailingWorkflows } from '../executions/failing-workflows.ts';
import { missingGraceMs } from '../executions/keeper.ts';
import { sweepReservations } from './reservation-sweep.ts';

interface SweeperDeps {
  config: Config;
  services: Services;
  client: Client;
  /** Registers the search attributes, in case the Temporal server has lost its state. */
  prepareServer: () => Promise<void>;
  webhookRelay: WebhookRelay;
  bulkWorkflows: Pick<BulkWorkflows, 'sweep'>;
  actionRuns: Pick<ActionRuns, 'sweep'>;
  /** Version of the workflow code that the workers of this process run. */
  workflowBuild: string;
}

const emptyReport = {
  extended: 0,
  missing: 0,
  released: 0,
  /** Number of webhooks whose delivery was started because no workflow was delivering them. */
  webhooks: 0,
  /** Number of bulk jobs that were signaled, checked or stopped. */
  bulks: 0,
  /** Number of open action runs of operators that were checked. */
  bulkActions: 0,
  /** Number of workflows that were reset because their workflow task kept failing. */
  reset: 0,
  /** Number of workflows whose workflow task still fails after their reset. */
  failing: 0,
  /** Number of chats of crashed API processes that were settled at their last checkpoint. */
  chats: 0,
  /** Number of reservations, uploads, artifacts, copies and webhooks that failed in this pass. */
  skipped: 0,
  /** Number of steps of the pass that failed as a whole. */
  failed: 0,
};
/** Report of one pass of the sweeper: the counts of its results. */
type SweepReport = typeof emptyReport;

/**
 * Time for which Idempotency-Keys are stored. It is longer than the guaranteed 24 hours and longer
 * than every job runs.
 */
const claimRetention = '48 hours';

/**
 * Runs one pass of the sweeper. Several processes may run passes at the same time. If a step of the
 * pass fails, the other steps still run.
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
  /** Counts the skipped items of a run. Returns the number of completed ones. */
  async function countSkipped(run: Promise<IsolationReport>): Promise<number> {
    const { done, skipped } = await run;
    report.skipped += skipped;
    return done;
  }
  // Steps that need only Postgres come first: requests to an unreachable Temporal take long.
  await step('chats', async () => {
    report.chats = await sweepChats(deps);
  });
  await step('chat answers', () => services.chatJobs.sweep(deps.config.CHAT_ANSWERS_KEPT_MS));
  await step('uploads', () => countSkipped(services.uploads.sweep()));
  await step('media', () => countSkipped(services.storedFiles.sweep()));
  await step('copies', () => countSkipped(services.copies.sweep()));
  await step('claims', () => deleteExpiredClaims(services.pool));
  // Most of them belong to keys that were rotated or revoked.
  await step('rate windows', async () => {
    await services.pool.query(command`DELETE FROM rate_window
      WHERE started_at < clock_timestamp() - interval '1 hour'`);
  });
  // The reservation of a job that starts late reads the row of its token.
  await step('browser tokens', async () => {
    await services.pool.query(command`DELETE FROM browser_token
      WHERE expires_at < clock_timestamp() - interval '2 days'`);
  });
  await step('rejected requests', () => services.rejectedRequests.sweep());
  await step('account notices', () => services.accountNotices.createDue());
  await step('reservations', async () => {
    const { skipped, ...decisions } = await sweepReservations(deps);
    Object.assign(report, decisions);
    report.skipped += skipped;
  });
  await step('workflows', async () => {
    const { config, client, workflowBuild } = deps;
    const { skipped, ...counts } = await resetFailingWorkflows({
      client,
      logger: services.logger,
      taskQueuePrefix: config.TASK_QUEUE_PREFIX,
      workflowBuild,
    });
    Object.assign(report, counts);
    report.skipped += skipped;
  });
  await step('webhooks', async () => {
    report.webhooks = await countSkipped(deps.webhookRelay.resume());
  });
  await step('bulks', async () => {
    report.bulks = await countSkipped(deps.bulkWorkflows.sweep());
  });
  await step('bulk actions', async () => {
    report.bulkActions = await countSkipped(deps.actionRuns.sweep());
  });
  await step('server', deps.prepareServer);
  return report;
}

async function sweepChats({ services, config }: SweeperDeps): Promise<number> {
  const settledChats = await services.chatLedger.sweep({
    graceMs: Math.min(missingGraceMs, config.CHAT_RESERVATION_TTL_MS),
    everyMs: config.SWEEP_INTERVAL_MS,
  });
  for (const { id, state, charged } of settledChats) {
    services.logger.warn({ chatId: id, state, charged }, 'sweeper.chat_settled');
  }
  return settledChats.length;
}

/** Deletes expired Idempotency-Keys and the chat responses that are stored with them. */
async function deleteExpiredClaims(pool: DatabasePool): Promise<void> {
  await pool.query(command`DELETE FROM idempotency_claim
    WHERE (organization_id, idempotency_key) IN (
      SELECT organization_id, idempotency_key FROM idempotency_claim
      WHERE created_at < clock_timestamp() - ${claimRetention}::interval
      ORDER BY created_at LIMIT 1000)`);
}
