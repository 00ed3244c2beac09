/** Reads the state of the whole gateway: open reservations, webhooks, task queues, chats and credits. */
import type { ConnectionLike } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import { firstIdAt } from '../domain/ids.ts';
import { polledQueues } from '../domain/job-contract.ts';
import type { Config } from '../platform/config.ts';
import type { DatabasePool } from '../platform/database.ts';
import { describeTaskQueue } from '../platform/temporal.ts';
import { providerDefinitions } from '../providers/provider-registry.ts';

const reservationRow = z.object({
  kind: z.enum(['studio', 'chat']),
  count: z.number(),
  amount: z.number(),
  ageSeconds: z.number(),
});
/**
 * Schema of the numbers of open jobs, webhooks and bulk jobs. A bulk job hangs if its workflow is
 * missing or was not signaled.
 */
export const openCounts = z.object({
  jobsOverdue: z.number(),
  jobsVerifying: z.number(),
  /** Jobs of which a step waits for a decision, and their reserved credits. */
  jobsAwaiting: z.number(),
  jobsAwaitingCredits: z.number(),
  reservationOverdueSeconds: z.number(),
  callerWebhooksOpen: z.number(),
  callerWebhookAgeSeconds: z.number(),
  bulksOpen: z.number(),
  bulksPaused: z.number(),
  bulksHanging: z.number(),
  providersPaused: z.number(),
});
const chatProviderRow = z.object({
  provider: z.string(),
  calls: z.number(),
  failed: z.number(),
  medianSeconds: z.number().nullable(),
});
const webhookFailures = z.object({
  /** Webhooks with a failed delivery attempt in the last hour. */
  failing: z.number(),
  /** Ended attempts of the last 30 minutes, and those that failed. */
  recentAttempts: z.number(),
  recentFailed: z.number(),
});
export type WebhookFailures = z.infer<typeof webhookFailures>;
const organizationActivity = z.object({
  openJobs: z.number(),
  endedJobs: z.number(),
  failedJobs: z.number(),
  keys: z.number(),
  spentMicro: z.number(),
});
const creditsRow = z.object({ spentMicro: z.number() });

interface GatewayStateOptions {
  pool: DatabasePool;
  connection: ConnectionLike;
  config: Pick<Config, 'OUTCOME_WAIT_MS' | 'TASK_QUEUE_PREFIX' | 'TEMPORAL_NAMESPACE'>;
}

/** Creates the functions that read the state of the gateway. */
export function createGatewayState({ pool, connection, config }: GatewayStateOptions) {
  return {
    /** Reads the open reservations of jobs and of chats, with the age of the oldest. */
    openReservations: () =>
      pool.any(sql.type(reservationRow)`
        SELECT k.kind, count(r.id) AS count, coalesce(sum(r.amount), 0)::bigint AS amount,
          coalesce(extract(epoch FROM clock_timestamp() - min(r.created_at)), 0)::float8
            AS "ageSeconds"
        FROM (VALUES ('studio'), ('chat')) AS k (kind)
        LEFT JOIN reservation r ON r.kind::text = k.kind AND r.state = 'reserved'
        GROUP BY k.kind`),
    openCounts: () =>
      pool.one(sql.type(openCounts)`
        SELECT jobs.*, webhooks.*, bulks.*, (SELECT count(*) FROM provider_pause) AS "providersPaused" FROM (
          SELECT count(*) FILTER (WHERE j.deadline_at < clock_timestamp()) AS "jobsOverdue",
            count(*) FILTER (WHERE j.verifying) AS "jobsVerifying", count(*) FILTER (WHERE j.awaiting) AS "jobsAwaiting", (coalesce(sum(r.amount) FILTER (WHERE j.awaiting), 0) / 1e6)::float8 AS "jobsAwaitingCredits",
            greatest(0, coalesce(extract(epoch FROM clock_timestamp() - min(j.deadline_at))
              - ${config.OUTCOME_WAIT_MS / 1000}::float8, 0))::float8 AS "reservationOverdueSeconds"
          FROM reservation r JOIN job j ON j.id = r.id WHERE r.state = 'reserved') AS jobs, (
          SELECT count(*) AS "callerWebhooksOpen",
            coalesce(extract(epoch FROM clock_timestamp() - min(happened_at)), 0)::float8
              AS "callerWebhookAgeSeconds"
          FROM undelivered_webhook) AS webhooks, (
          SELECT count(*) AS "bulksOpen", count(*) FILTER (WHERE status = 'paused') AS "bulksPaused",
            count(*) FILTER (WHERE missing_at IS NOT NULL
              OR unsignaled_since < clock_timestamp() - interval '1 minute') AS "bulksHanging"
          FROM bulk WHERE completed_at IS NULL AND status <> 'receiving') AS bulks`),
    webhookFailures: () =>
      pool.one(sql.type(webhookFailures)`
        SELECT count(DISTINCT subject_id) FILTER (WHERE outcome = 'failed') AS failing,
          count(*) FILTER (WHERE recent AND outcome <> 'sending') AS "recentAttempts",
          count(*) FILTER (WHERE recent AND outcome = 'failed') AS "recentFailed"
        FROM webhook_attempt, LATERAL (SELECT started_at > clock_timestamp() - interval '30 minutes' AS recent) AS r
        WHERE started_at > clock_timestamp() - interval '1 hour'`),
    /** Reads the credits that keys have spent since midnight UTC. */
    spentToday: () =>
      pool.one(sql.type(creditsRow)`
        SELECT coalesce(sum(b.spent), 0)::bigint AS "spentMicro"
        FROM api_key k JOIN budget_spend b ON b.budget_id = k.id
          AND b.day = (clock_timestamp() AT TIME ZONE 'UTC')::date`),
    /** Reads the chats of the last hour that have ended. A chat whose credits were released failed. */
    chatProviders: () =>
      pool.any(sql.type(chatProviderRow)`
        SELECT coalesce(r.provider, 'unknown') AS provider, count(*) AS calls,
          count(*) FILTER (WHERE r.state = 'released') AS failed,
          percentile_cont(0.5) WITHIN GROUP (ORDER BY
            extract(epoch FROM r.settled_at - r.created_at)::float8)
            FILTER (WHERE r.state = 'charged') AS "medianSeconds"
        FROM reservation r
        WHERE (r.id BETWEEN ${firstIdAt('chat', Date.now() - 3_600_000)} AND 'chat_g'
          OR r.id >= ${firstIdAt('job', Date.now() - 3_600_000)}) AND r.kind = 'chat' AND r.state <> 'reserved'
        GROUP BY 1 ORDER BY 3 DESC, 2 DESC`),
    /** Reads the backlog and the pollers of each task queue. */
    queues: () => {
      const queues = polledQueues(config.TASK_QUEUE_PREFIX, [...providerDefinitions.keys()]);
      return Promise.all(
        queues.map(async ({ name, queue, task }) => {
          const state = await describeTaskQueue(connection, config.TEMPORAL_NAMESPACE, {
            queue,
            task,
          });
          return { name, task, ...state, pollers: new Set(state.pollers).size };
        }),
      );
    },
  };
}

/** Reads the jobs, the spending and the number of keys of an organization. */
export function readOrganizationActivity(pool: DatabasePool, organizationId: string) {
  return pool.one(sql.type(organizationActivity)`
        SELECT jobs.*, keys.*,
          (SELECT count(*) FROM reservation r WHERE r.organization_id = ${organizationId}
            AND r.kind = 'studio' AND r.state = 'reserved') AS "openJobs"
        FROM (SELECT count(*) FILTER (WHERE status <> 'open') AS "endedJobs",
            count(*) FILTER (WHERE status = 'failed' AND error->>'code' <> 'CANCELED') AS "failedJobs"
          FROM job WHERE organization_id = ${organizationId}
            AND created_at > clock_timestamp() - interval '24 hours') AS jobs, (
          SELECT count(*) FILTER (WHERE k.revoked_at IS NULL
              AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())) AS keys,
            coalesce(sum(b.spent), 0)::bigint AS "spentMicro"
          FROM api_key k LEFT JOIN budget_spend b ON b.budget_id = k.id
            AND b.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
          WHERE k.organization_id = ${organizationId}) AS keys`);
}
