/**
 * Stores webhooks and their delivery attempts in the database. A webhook reports the start of a
 * job, that a step of a job awaits an approval, the end of a job, an event of a bulk job
 * (bulk/), or an account notice (webhooks/notices.ts). The rows determine what is delivered;
 * workflows only wait between attempts.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../domain/errors.ts';
import {
  chatJobType,
  readSubjectId,
  startSubjectId,
  waitSubjectId,
  webhookEvents,
  type WebhookEventName,
} from '../domain/job-contract.ts';
import { command, type DatabasePool } from '../platform/database.ts';

const begunAttempt = z.object({
  url: z.string(),
  number: z.number(),
  /** Number of failed attempts before this one, counted from the last redelivery. */
  failures: z.number(),
});
const dueRow = z.object({
  subjectId: z.string(),
  organizationId: z.string(),
  replaces: z.boolean(),
});
const createdRow = z.object({ subjectId: z.string() });

/**
 * State of a webhook. `gone`: the receiver responded with status 410. `failed`: the last attempt
 * failed, and no attempt follows.
 */
const webhookState = z.enum(['waiting', 'delivering', 'delivered', 'gone', 'failed']);
export type WebhookState = z.infer<typeof webhookState>;

/** Schema of a webhook; times are in Unix milliseconds. */
export const webhookRecord = z.object({
  /** Id of the webhook (`WebhookIds.subjectId`). */
  subjectId: z.string(),
  jobId: z.string(),
  event: z.enum(['started', 'awaiting_approval', 'ended']),
  /** Id of the step that awaits an approval; null for other events. */
  step: z.string().nullable(),
  organizationId: z.string(),
  endpointId: z
    .string()
    .nullable()
    .meta({ description: 'Webhook endpoint; null if the request named the URL.' }),
  url: z.string(),
  state: webhookState,
  attempts: z.int(),
  nextAttemptAtMs: z.number().nullable(),
  createdAtMs: z.number(),
  updatedAtMs: z.number(),
});
export type WebhookRecord = z.infer<typeof webhookRecord>;

/**
 * Schema of a delivery attempt. `sending`: the attempt is in progress, or its end was not recorded.
 */
export const webhookAttempt = z.object({
  number: z.int(),
  outcome: z.enum(['sending', 'delivered', 'gone', 'failed']),
  status: z.int().nullable(),
  error: z.string().nullable().meta({
    description: 'Reason why there is no response status, or target of a redirect; otherwise null.',
  }),
  response: z
    .string()
    .nullable()
    .meta({ description: 'First bytes of the response body, at most 1024.' }),
  durationMs: z.int().nullable(),
  startedAtMs: z.number(),
});
export type WebhookAttempt = z.infer<typeof webhookAttempt>;

/** Schema of a webhook with the result of its last attempt. */
export const listedWebhook = webhookRecord.extend({
  lastStatus: z.int().nullable(),
  lastError: z.string().nullable(),
});
export type ListedWebhook = z.infer<typeof listedWebhook>;

/** Filter and page of a webhook list; webhooks of the newest job come first. */
export interface WebhookListing {
  organizationId: string | undefined;
  endpointId?: string | undefined;
  /** Only webhooks in this state. `failing` selects all webhooks whose last attempt failed. */
  state: WebhookState | 'failing' | undefined;
  /** Only webhooks that follow the one with this `subjectId` in the list. */
  beforeId: string | undefined;
  limit: number;
}

/** Identifies a webhook. */
export interface WebhookIds {
  /**
   * Id of the event that the webhook reports: a job id for the end of the job, `startSubjectId` for
   * its start, `waitSubjectId` for a step, or the id of an account notice or of an event of a bulk
   * job. If a webhook endpoint receives it, a dot and the id of the endpoint follow.
   */
  subjectId: string;
  organizationId: string;
}

/** Identifies a job. */
export type JobIds = Pick<WebhookRecord, 'jobId' | 'organizationId'>;

/**
 * Chooses webhooks of a job: with `step`, those that report that a step awaits an approval; with
 * `endpointId`, those that one endpoint receives.
 */
export interface WebhookChoice extends JobIds {
  step?: string | undefined;
  endpointId?: string | undefined;
}

/** Webhook that a request specifies. Without `events`, it reports all but the start of the job. */
export interface RequestedWebhook {
  url: string;
  events: WebhookEventName[] | undefined;
}

/** Due webhook; `replaces` is true if a replay replaces a delivery that may be in progress. */
export type DueWebhook = z.infer<typeof dueRow>;

type BegunAttempt = z.infer<typeof begunAttempt>;

/** Result of a delivery attempt. */
export interface AttemptResult {
  outcome: 'delivered' | 'gone' | 'failed';
  status: number | null;
  error: string | null;
  response: string | null;
  durationMs: number;
  /** Waiting time before the next attempt, in milliseconds; null if no attempt follows. */
  retryInMs: number | null;
}

/**
 * Time from the end of a job until the sweeper starts a delivery that the job's workflow has not
 * started.
 */
const unstartedAfter = '5 seconds';
/**
 * Time from the start of an attempt until the sweeper starts the delivery again. No attempt takes
 * this long, so the worker must have crashed.
 */
const overdueAfter = '2 minutes';
/**
 * Retention period of a webhook without a job. A webhook is stored before its job starts, and
 * deleted if the job is rejected; after a crash, it remains without a job. A workflow may wait this
 * long for a worker before it creates the job.
 */
const orphanRetention = '48 hours';
/** Time for which a webhook waits while its endpoint is paused. */
const pausedRetention = '7 days';

const webhookColumns = sql.fragment`w.subject_id AS "subjectId", w.job_id AS "jobId",
  CASE split_part(w.subject_id, '_', 1) WHEN 'job' THEN 'ended' WHEN 'wait' THEN 'awaiting_approval'
    ELSE 'started' END AS event,
  CASE WHEN starts_with(w.subject_id, 'wait_') THEN substr(split_part(w.subject_id, '.', 1), 39) END AS step,
  w.organization_id AS "organizationId", w.endpoint_id AS "endpointId", w.url, w.state, w.attempts,
  w.next_attempt_at AS "nextAttemptAtMs", w.created_at AS "createdAtMs",
  w.updated_at AS "updatedAtMs"`;

/** Events that are reported by default. */
const defaultEvents = webhookEvents.filter((event) => event !== 'started');

/**
 * Selects the job of a `webhook` row, if the job ended with an event that the caller did not
 * request.
 */
const unrequestedEnd = sql.fragment`SELECT FROM job j WHERE j.id = webhook.job_id AND starts_with(webhook.subject_id, 'job_')
  AND j.status <> 'open' AND j.status <> ALL (webhook.events)`;

/** Creates the functions that read and write webhooks in the database. */
export function createWebhooks(pool: DatabasePool) {
  return {
    ...createRegistry(pool),
    ...createRestarts(pool),
    ...createAttemptWrites(pool),
    ...createDueReads(pool),
    ...createReads(pool),
  };
}
export type Webhooks = ReturnType<typeof createWebhooks>;

function createRegistry(pool: DatabasePool) {
  return {
    /**
     * Adds the webhooks of a job, to the URL of its request or to each webhook endpoint: one that
     * reports its start, one that reports its end, or both, depending on the events. Returns their
     * ids. Must be called before the job is admitted.
     */
    async createForJob(
      { jobId, organizationId, type }: JobIds & { type?: string },
      requested: RequestedWebhook | null,
    ): Promise<string[]> {
      const prefix = type === chatJobType ? 'chat.' : 'studio.job.';
      const laterEvents = sql.array(defaultEvents, 'text');
      const events = requested?.events ? sql.array(requested.events, 'text') : laterEvents;
      const created = await pool.any(sql.type(createdRow)`
        INSERT INTO webhook (subject_id, organization_id, url, events, endpoint_id)
        SELECT e.id || a.suffix, ${organizationId}, a.url, a.events, a.endpoint_id
        FROM webhook_addresses(${organizationId}, ${requested?.url ?? null}, ${events}, ${prefix}) AS a,
          (VALUES (${startSubjectId(jobId)}, '{started}'), (${jobId}, ${laterEvents})) AS e (id, reported)
        WHERE a.events && e.reported::text[]
        ON CONFLICT (subject_id) DO UPDATE SET url = excluded.url RETURNING subject_id AS "subjectId"`);
      return created.map(({ subjectId }) => subjectId);
    },
    /**
     * Adds the webhooks that report that a step of a job awaits an approval, unless they exist.
     * Returns their ids.
     */
    async createForStep(jobId: string, stepId: string): Promise<string[]> {
      const created = await pool.any(sql.type(createdRow)`
        INSERT INTO webhook (subject_id, organization_id, url, events, endpoint_id, state, next_attempt_at, overdue_at)
        SELECT ${waitSubjectId(jobId, stepId)} || substr(w.subject_id, 37), w.organization_id, w.url, w.events,
          w.endpoint_id, 'delivering', clock_timestamp(), clock_timestamp() + ${unstartedAfter}::interval
        FROM webhook w JOIN job j ON j.id = w.job_id AND j.status = 'open'
        WHERE w.job_id = ${jobId} AND starts_with(w.subject_id, 'job_') AND 'awaiting_approval' = ANY (w.events)
        ON CONFLICT (subject_id) DO UPDATE SET updated_at = webhook.updated_at
        RETURNING subject_id AS "subjectId"`);
      return created.map(({ subjectId }) => subjectId);
    },
    /** Deletes the webhooks of a job that was rejected. */
    async deleteForJob(jobId: string): Promise<void> {
      await pool.query(command`DELETE FROM webhook
        WHERE job_id = ${jobId} AND NOT EXISTS (SELECT FROM job j WHERE j.id = ${jobId})`);
    },
    /**
     * Deletes webhooks without a job, and those of a job whose end the caller did not request. Stops
     * those of deleted endpoints, and those that have waited too long for a paused one.
     */
    async deleteUndeliverable(): Promise<void> {
      await pool.query(command`DELETE FROM webhook
        WHERE (state = 'waiting' AND overdue_at IS NULL AND created_at < clock_timestamp() - ${orphanRetention}::interval
            AND NOT EXISTS (SELECT FROM job j WHERE j.id = webhook.job_id
              AND (starts_with(webhook.subject_id, 'job_') OR j.status = 'open')))
          OR (state IN ('waiting', 'delivering') AND EXISTS (${unrequestedEnd}))`);
      // The end of a job waits from then on, and other events from their webhook's creation.
      await pool.query(command`UPDATE webhook w SET state = 'failed', next_attempt_at = NULL, overdue_at = NULL,
          updated_at = clock_timestamp()
        WHERE state IN ('waiting', 'delivering') AND endpoint_id IS NOT NULL AND NOT EXISTS (
          SELECT FROM webhook_endpoint e WHERE e.id = w.endpoint_id AND (NOT e.paused
            OR CASE WHEN starts_with(w.subject_id, 'job_')
                THEN (SELECT j.completed_at FROM job j WHERE j.id = w.job_id) ELSE w.created_at END
              < clock_timestamp() - ${pausedRetention}::interval IS NOT TRUE))`);
    },
  };
}

function createRestarts(pool: DatabasePool) {
  return {
    /** Sets a webhook of any state to `delivering`, with the full number of attempts. */
    async resetDelivery(subjectId: string): Promise<void> {
      await pool.query(command`UPDATE webhook SET state = 'delivering',
        attempts_before = attempts, next_attempt_at = clock_timestamp(),
        overdue_at = clock_timestamp() + ${unstartedAfter}::interval, updated_at = clock_timestamp()
        WHERE subject_id = ${subjectId}`);
    },
    /**
     * Makes the sweeper deliver the undelivered webhooks of an endpoint that were last attempted
     * since `sinceMs`, in Unix milliseconds, with the full number of attempts. Returns their number.
     */
    async replay(endpointId: string, sinceMs: number): Promise<number> {
      const replayed = await pool.query(command`UPDATE webhook SET state = 'delivering',
        attempts_before = attempts, next_attempt_at = clock_timestamp(), overdue_at = clock_timestamp(),
        updated_at = clock_timestamp()
        WHERE endpoint_id = ${endpointId} AND updated_at >= to_timestamp(${sinceMs / 1000}::float8)
          AND (state IN ('failed', 'gone')
            OR state = 'delivering' AND attempts > attempts_before AND next_attempt_at IS NOT NULL)`);
      return replayed.rowCount;
    },
    /** Stops the delivery of a webhook; its state becomes `failed`. */
    async stopDelivery(subjectId: string): Promise<void> {
      await pool.query(command`UPDATE webhook SET state = 'failed',
        next_attempt_at = NULL, overdue_at = NULL, updated_at = clock_timestamp()
        WHERE subject_id = ${subjectId} AND state IN ('waiting', 'delivering')`);
    },
  };
}

function createAttemptWrites(pool: DatabasePool) {
  return {
    /**
     * Begins a delivery attempt. Returns null if the webhook no longer needs to be delivered, or
     * waits because its endpoint is paused: the sweeper delivers it once the endpoint is resumed.
     */
    beginAttempt: ({ subjectId, organizationId }: WebhookIds): Promise<BegunAttempt | null> =>
      pool.maybeOne(sql.type(begunAttempt)`
        WITH held AS (
          UPDATE webhook SET next_attempt_at = clock_timestamp(), overdue_at = clock_timestamp()
          WHERE subject_id = ${subjectId} AND state IN ('waiting', 'delivering')
            AND EXISTS (SELECT FROM webhook_endpoint WHERE id = endpoint_id AND paused)),
        begun AS (
          UPDATE webhook SET state = 'delivering', attempts = attempts + 1, next_attempt_at = NULL,
            overdue_at = clock_timestamp() + ${overdueAfter}::interval, updated_at = clock_timestamp(),
            url = coalesce((SELECT url FROM webhook_endpoint WHERE id = endpoint_id), url)
          WHERE subject_id = ${subjectId} AND organization_id = ${organizationId}
            AND state IN ('waiting', 'delivering') AND NOT EXISTS (${unrequestedEnd})
            AND (endpoint_id IS NULL OR EXISTS (
              SELECT FROM webhook_endpoint WHERE id = endpoint_id AND NOT paused))
          RETURNING subject_id, url, attempts, attempts - attempts_before - 1 AS failures),
        logged AS (
          INSERT INTO webhook_attempt (subject_id, number) SELECT subject_id, attempts FROM begun
          RETURNING number)
        SELECT begun.url, begun.failures, logged.number FROM begun, logged`),
    /**
     * Records the end of a delivery attempt. Only the newest attempt changes the state of the
     * webhook. If the delivery was stopped or requested again during the attempt, only a successful
     * attempt changes the state.
     */
    async endAttempt(subjectId: string, number: number, result: AttemptResult): Promise<void> {
      const { outcome, status, error, response, durationMs, retryInMs } = result;
      const state = outcome === 'failed' && retryInMs !== null ? 'delivering' : outcome;
      await pool.query(command`
        WITH logged AS (
          UPDATE webhook_attempt SET outcome = ${outcome}, status = ${status}, error = ${error},
            response = ${response}, duration_ms = ${durationMs}
          WHERE subject_id = ${subjectId} AND number = ${number}
          RETURNING subject_id, started_at),
        health AS (
          UPDATE webhook_endpoint e SET last_status = ${status}, last_error = ${error},
            delivered = e.delivered + (${outcome} = 'delivered')::int,
            failed = e.failed + (${outcome} <> 'delivered')::int,
            last_delivered_at = CASE WHEN ${outcome} = 'delivered' THEN clock_timestamp() ELSE e.last_delivered_at END,
            failing_since = CASE WHEN ${outcome} <> 'delivered' THEN coalesce(e.failing_since, logged.started_at) END
          FROM logged JOIN webhook w USING (subject_id) WHERE e.id = w.endpoint_id)
        UPDATE webhook w SET state = ${state}, updated_at = clock_timestamp(),
          next_attempt_at = clock_timestamp() + ${retryInMs}::float8 * interval '1 millisecond',
          overdue_at = clock_timestamp() + ${retryInMs}::float8 * interval '1 millisecond'
            + ${overdueAfter}::interval
        FROM logged WHERE w.subject_id = logged.subject_id AND w.attempts = ${number}
          AND (w.state = 'delivering' AND w.attempts_before < ${number}
            OR ${outcome} = 'delivered')`);
    },
  };
}

/** Functions of the relay (webhooks/relay.ts). */
function createDueReads(pool: DatabasePool) {
  return {
    /**
     * Returns webhooks whose event has happened and that no workflow seems to deliver. Organizations
     * take turns, because a replay or a resumed endpoint can make thousands due at once.
     */
    listOverdue: (): Promise<readonly DueWebhook[]> =>
      pool.any(sql.type(dueRow)`
        SELECT subject_id AS "subjectId", organization_id AS "organizationId",
          attempts > 0 AND attempts = attempts_before AND next_attempt_at IS NOT NULL AS replaces
        FROM undelivered_webhook
        WHERE coalesce(overdue_at, happened_at + ${unstartedAfter}::interval) < clock_timestamp()
        ORDER BY row_number() OVER (PARTITION BY organization_id ORDER BY created_at), created_at LIMIT 100`),
    /**
     * Records that a workflow delivers the webhook. `listOverdue` then omits the webhook for two
     * minutes.
     */
    async recordDeliveryStart(subjectId: string): Promise<void> {
      await pool.query(command`UPDATE webhook SET next_attempt_at = NULL,
        overdue_at = clock_timestamp() + ${overdueAfter}::interval WHERE subject_id = ${subjectId}`);
    },
  };
}

function createReads(pool: DatabasePool) {
  return {
    /**
     * Returns the webhooks of a step or of a job's end, those that were not delivered first. A URL or
     * endpoint to which the end is not reported has that of the start. The start of a job that no
     * provider accepted is not reported.
     */
    findAll({ jobId, organizationId, step, endpointId }: WebhookChoice) {
      const reported =
        step === undefined
          ? sql.fragment`NOT starts_with(subject_id, 'wait_')`
          : sql.fragment`split_part(subject_id, '.', 1) = ${waitSubjectId(jobId, step)}`;
      return pool.any(sql.type(webhookRecord)`SELECT ${webhookColumns} FROM (
          SELECT DISTINCT ON (endpoint_id) * FROM webhook
          WHERE job_id = ${jobId} AND organization_id = ${organizationId} AND ${reported}
            AND endpoint_id IS NOT DISTINCT FROM coalesce(${endpointId ?? null}, endpoint_id)
            AND (starts_with(subject_id, 'job_') OR state <> 'waiting'
              OR EXISTS (SELECT FROM job j WHERE j.id = ${jobId} AND j.status = 'open'))
          ORDER BY endpoint_id, starts_with(subject_id, 'job_') DESC) AS w
        ORDER BY w.state = 'delivered', w.subject_id`);
    },
    /** Returns the newest delivery attempts of a webhook, newest first. */
    attempts: (subjectId: string, limit: number): Promise<readonly WebhookAttempt[]> =>
      pool.any(sql.type(webhookAttempt)`
        SELECT number, outcome, status, error, response, duration_ms AS "durationMs",
          started_at AS "startedAtMs"
        FROM webhook_attempt WHERE subject_id = ${subjectId} ORDER BY number DESC LIMIT ${limit}`),
    /**
     * Lists the webhooks of jobs, newest job first; webhooks/notices.ts lists account notices.
     */
    list({
      organizationId,
      endpointId,
      state,
      beforeId,
      limit,
    }: WebhookListing): Promise<readonly ListedWebhook[]> {
      // A start is not reported if no provider accepts the job, so it is listed once it is delivered.
      const conditions = [
        sql.fragment`w.job_id IS NOT NULL AND (starts_with(w.subject_id, 'job_') OR w.state <> 'waiting')`,
      ];
      if (organizationId !== undefined) {
        conditions.push(sql.fragment`w.organization_id = ${organizationId}`);
      }
      if (endpointId !== undefined) {
        conditions.push(sql.fragment`w.endpoint_id = ${endpointId}`);
      }
      if (beforeId !== undefined) {
        const { jobId } = readSubjectId(beforeId);
        conditions.push(sql.fragment`(w.job_id, w.subject_id) < (${jobId}, ${beforeId})`);
      }
      if (state === 'failing') {
        conditions.push(sql.fragment`w.state IN ('delivering', 'failed', 'gone')
          AND a.outcome IN ('failed', 'gone')`);
      } else if (state !== undefined) conditions.push(sql.fragment`w.state = ${state}`);
      return pool.any(sql.type(listedWebhook)`
        SELECT ${webhookColumns}, a.status AS "lastStatus", a.error AS "lastError"
        FROM webhook w
          LEFT JOIN webhook_attempt a ON a.subject_id = w.subject_id AND a.number = w.attempts
        WHERE ${sql.join(conditions, sql.fragment` AND `)}
        ORDER BY w.job_id DESC, w.subject_id DESC LIMIT ${limit}`);
    },
  };
}

/**
 * Returns a webhook of a job or of a step, one that was not delivered if there is one.
 * @throws GatewayError NOT_FOUND if there is none
 */
export async function findWebhook(
  webhooks: Pick<Webhooks, 'findAll'>,
  choice: WebhookChoice,
): Promise<WebhookRecord> {
  const [webhook] = await webhooks.findAll(choice);
  const subject = choice.step === undefined ? 'This job' : 'This step of the job';
  if (!webhook) throw new GatewayError('NOT_FOUND', `${subject} has no webhook.`);
  return webhook;
}
