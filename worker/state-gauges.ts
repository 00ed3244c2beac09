/**
 * Registers the gauges of the state of the whole gateway: open reservations, waiting webhooks, task
 * queue backlogs, and the organizations that spend most.
 */
import type { ConnectionLike } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import { createGatewayState, openCounts } from '../process/gateway-state.ts';
import type { Services } from '../process/services.ts';
import { creditsFromMicro } from '../domain/credits.ts';
import { keysOf } from '../domain/json.ts';
import type { Config } from '../platform/config.ts';
import type { Metrics, StateGauges } from '../platform/metrics.ts';
import { cacheResult } from '../platform/temporal.ts';

interface StateGaugesOptions {
  config: Config;
  services: Services;
  connection: ConnectionLike;
  metrics: Metrics;
  state: StateGauges;
}

const spendingRow = z.object({ organization: z.string(), spent: z.number() });
/** Names of the gauges without labels. */
const gaugeNames = keysOf(openCounts.shape);

/** Time in milliseconds for which values are cached between scrapes. */
const readAgeMaxMs = 4000;
/**
 * Time in milliseconds for which the spending of organizations is cached between scrapes. It is
 * longer than `readAgeMaxMs`, because the query reads a row for each API key.
 */
const spendingAgeMaxMs = 15_000;

/** Registers gauges that are updated at each scrape. A gauge that cannot be read is omitted. */
export function registerStateGauges(gaugeOptions: StateGaugesOptions): void {
  const { metrics, state, services, connection, config } = gaugeOptions;
  const readers = createGatewayState({ pool: services.pool, connection, config });
  const options = { ...gaugeOptions, readers };
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

type ReaderOptions = StateGaugesOptions & { readers: ReturnType<typeof createGatewayState> };

async function readDatabase({ readers, state }: ReaderOptions): Promise<void> {
  for (const { kind, count, amount, ageSeconds } of await readers.openReservations()) {
    state.reservationsOpen.set({ kind }, count);
    state.reservationsOpenCredits.set({ kind }, creditsFromMicro(amount));
    state.reservationAgeSeconds.set({ kind }, ageSeconds);
  }
  const values = await readers.openCounts();
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

async function readQueues({ readers, state }: ReaderOptions): Promise<void> {
  for (const { name, task, backlog, backlogAgeSeconds, pollers } of await readers.queues()) {
    const labels = { queue: name, task };
    state.taskQueueBacklog.set(labels, backlog);
    state.taskQueueAgeSeconds.set(labels, backlogAgeSeconds);
    state.taskQueuePollers.set(labels, pollers);
  }
}
