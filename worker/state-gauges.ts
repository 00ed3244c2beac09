/**
 * Registers the gauges of the state of the whole gateway: open reservations, waiting webhooks, task
 * queue backlogs, and the organizations that spend most.
 */
import type { Connection } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import { providerDefinitions } from '../providers/provider-registry.ts';
import type { Services } from '../process/services.ts';
import { creditsFromMicro } from '../domain/credits.ts';
import { keysOf } from '../domain/json.ts';
import type { Config } from '../platform/config.ts';
import type { Metrics, StateGauges } from '../platform/metrics.ts';
import { describeTaskQueue, cacheResult } from '../platform/temporal.ts';
import { polledQueues } from '../domain/job-contract.ts';

interface StateGaugesOptions {
  config: Config;
  services: Services;
  connection: Connection;
  metrics: Metrics;
  state: StateGauges;
}

const reservationRow = z.object({
  kind: z.string(),
  count: z.number(),
  amount: z.number(),
  age_seconds: z.number(),
});
const spendingRow = z.object({ organization: z.string(), spent: z.number() });
/** Schema of the values of the gauges without labels, by gauge name. */
const gaugeValues = z.object({
  jobsOverdue: z.number(),
  jobsVerifying: z.number(),
  reservationOverdueSeconds: z.number(),
  callerWebhooksOpen: z.number(),
  callerWebhookAgeSeconds: z.number(),
});
const gaugeNames = keysOf(gaugeValues.shape);

/** Time in milliseconds for which values are cached between scrapes. */
const readAgeMaxMs = 4000;
/**
 * Time in milliseconds for which the spending of organizations is cached between scrapes. It is
 * longer than `readAgeMaxMs`, because the query reads a row for each API key.
 */
const spendingAgeMaxMs = 15_000;

/** Registers gauges that are updated at each scrape. A gauge that cannot be read is omitted. */
export function registerStateGauges(options: StateGaugesOptions): void {
  const { metrics, state, services } = options;
  const byKind = [
    state.reservationsOpen,
    state.reservationsOpenCredits,
    state.reservationAgeSeconds,
  ];
  const byQueue = [state.taskQueueBacklog, state.taskQueueAgeSeconds, state.taskQueuePollers];
  const clearCounts = (): void => {
    for (const gauge of byKind) gauge.reset();
    // Gauges without labels are removed instead of reset, because `reset` would set them to 0,
    // which is a wrong value.
    for (const name of gaugeNames) state[name].remove();
  };
  const clearQueues = (): void => {
    for (const gauge of byQueue) gauge.reset();
  };
  const clearSpending = (): void => state.organizationSpend.reset();
  const gaugeReaders = [
    { read: cacheResult(() => readSpending(options), spendingAgeMaxMs), clear: clearSpending },
    { read: cacheResult(() => readDatabase(options), readAgeMaxMs), clear: clearCounts },
    { read: cacheResult(() => readQueues(options), readAgeMaxMs), clear: clearQueues },
  ];
  for (const { read, clear } of gaugeReaders) {
    metrics.onScrape(async () => {
      try {
        await read();
      } catch (error) {
        clear();
        services.logger.warn({ error }, 'metrics.state_not_read');
      }
    });
  }
}

async function readDatabase({ config, services, state }: StateGaugesOptions): Promise<void> {
  const openReservations = await services.pool.any(sql.type(reservationRow)`
    SELECT k.kind, count(r.id) AS count, coalesce(sum(r.amount), 0)::bigint AS amount,
      coalesce(extract(epoch FROM clock_timestamp() - min(r.created_at)), 0)::float8 AS age_seconds
    FROM (VALUES ('studio'), ('chat')) AS k (kind)
    LEFT JOIN reservation r ON r.kind = k.kind AND r.state = 'reserved'
    GROUP BY k.kind`);
  for (const { kind, count, amount, age_seconds: ageSeconds } of openReservations) {
    state.reservationsOpen.set({ kind }, count);
    state.reservationsOpenCredits.set({ kind }, creditsFromMicro(amount));
    state.reservationAgeSeconds.set({ kind }, ageSeconds);
  }
  const values = await services.pool.one(sql.type(gaugeValues)`
    SELECT jobs.*, webhooks.* FROM (
      SELECT count(*) FILTER (WHERE j.deadline_at < clock_timestamp()) AS "jobsOverdue",
        count(*) FILTER (WHERE j.verifying) AS "jobsVerifying",
        greatest(0, coalesce(extract(epoch FROM clock_timestamp() - min(j.deadline_at))
          - ${config.OUTCOME_WAIT_MS / 1000}::float8, 0))::float8 AS "reservationOverdueSeconds"
      FROM reservation r JOIN job j ON j.id = r.id WHERE r.state = 'reserved') AS jobs, (
      SELECT count(*) AS "callerWebhooksOpen",
        coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(j.completed_at, n.created_at))), 0)::float8
          AS "callerWebhookAgeSeconds"
      FROM webhook w LEFT JOIN job j ON j.id = w.subject_id LEFT JOIN account_notice n ON n.id = w.subject_id
      WHERE w.state IN ('waiting', 'delivering')
        AND (j.status <> 'open' OR n.id IS NOT NULL)) AS webhooks`);
  for (const name of gaugeNames) state[name].set(values[name]);
}

/** Reads the ten organizations that have spent most since midnight UTC. */
async function readSpending({ services, state }: StateGaugesOptions): Promise<void> {
  const topOrganizations = await services.pool.any(sql.type(spendingRow)`
    SELECT k.organization_id AS organization, sum(b.spent)::bigint AS spent
    FROM api_key k JOIN budget_spend b ON b.budget_id = k.id
      AND b.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
    GROUP BY 1 ORDER BY 2 DESC LIMIT 10`);
  state.organizationSpend.reset();
  for (const { organization, spent } of topOrganizations) {
    state.organizationSpend.set({ organization }, creditsFromMicro(spent));
  }
}

async function readQueues({ config, connection, state }: StateGaugesOptions): Promise<void> {
  const queues = polledQueues(config.TASK_QUEUE_PREFIX, [...providerDefinitions.keys()]);
  await Promise.all(
    queues.map(async ({ name, queue, task }) => {
      const queueState = await describeTaskQueue(connection, config.TEMPORAL_NAMESPACE, {
        queue,
        task,
      });
      const labels = { queue: name, task };
      state.taskQueueBacklog.set(labels, queueState.backlog);
      state.taskQueueAgeSeconds.set(labels, queueState.backlogAgeSeconds);
      state.taskQueuePollers.set(labels, new Set(queueState.pollers).size);
    }),
  );
}
