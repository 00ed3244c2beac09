/**
 * Stores webhooks and their delivery attempts in the database. A webhook reports the start of a
 * job, that a step of a job awaits an approval, the end of a job, an event of a bulk job
 * (studio/bulk/), or an account notice (webhooks/notices.ts); its subject id identifies that event. The rows determine what is delivered; workflows only wait between attempts.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../domain/errors.ts';
import {
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
const idsRow = z.object({ subjectId: z.string(), organizationId: z.string() });

/**
 * State of a webhook. `gone`: the receiver responded with status 410. `failed`: the last attempt
 * failed, and no attempt follows.
 */
const webhookState = z.enum(['waiting', 'delivering', 'delivered', 'gone', 'failed']);
export type WebhookState = z.infer<typeof webhookState>;

/** Schema of a webhook; times are in Unix milliseconds. */
export const webhookRecord = z.object({
  /** Id of the reported event (`WebhookIds.subjectId`). */
  subjectId: z.string(),
  jobId: z.string(),
  event: z.enum(['started', 'awaiting_approval', 'ended']),
  /** Id of the step that awaits an approval; null for other events. */
  step: z.string().nullable(),
  organizationId: z.string(),
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
   * its start, `waitSubjectId` for a step, or the id of an account notice.
   */
  subjectId: string;
  organizationId: string;
}

/** Identifies a job. */
export type JobIds = Pick<WebhookRecord, 'jobId' | 'organizationId'>;

/** Identifies a webhook of a job: with `step`, that of a step that awaits an approval. */
export interface JobWebhookIds extends JobIds {
  step?: string | undefined;
}

/** Webhook that a caller requested for a job. */
interface NewWebhook extends JobIds {
  url: string;
  /** Events that the webhook reports. Defaults to all but `started`. */
  events?: readonly WebhookEventName[] | undefined;
}

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

const webhookColumns = sql.fragment`w.subject_id AS "subjectId", w.job_id AS "jobId",
  CASE WHEN w.subject_id = w.job_id THEN 'ended' WHEN starts_with(w.subject_id, 'wait_') THEN 'awaiting_approval'
    ELSE 'started' END AS event,
  CASE WHEN starts_with(w.subject_id, 'wait_') THEN substr(w.subject_id, 39) END AS step, w.organization_id AS "organizationId", w.url,
  w.state, w.attempts, w.next_attempt_at AS "nextAttemptAtMs", w.created_at AS "createdAtMs",
  w.updated_at AS "updatedAtMs"`;

/** Events that are reported by default. */
const defaultEvents = webhookEvents.filter((event) => event !== 'started');

/**
 * Selects the job of a `webhook` row, if the job ended with an event that the caller did not
 * request.
 */
const unrequestedEnd = sql.fragment`SELECT FROM job j WHERE j.id = webhook.subject_id
  AND j.status <> 'open' AND j.status <> ALL (webhook.events)`;

/** Creates the functions that read and write webhooks in the database. */
export function createWebhooks(pool: DatabasePool) {
  return { ...createRegistry(pool), ...createAttemptWrites(pool), ...createReads(pool) };
}
export type Webhooks = ReturnType<typeof createWebhooks>;

function createRegistry(pool: DatabasePool) {
  return {
    /**
     * Adds the webhooks of a job: one that reports its start, one that reports its end, or both,
     * depending on `events`. Must be called before the job is admitted.
     */
    async createForJob({
      jobId,
      organizationId,
      url,
      events = defaultEvents,
    }: NewWebhook): Promise<void> {
      const subjectIds = [
        ...(events.includes('started') ? [startSubjectId(jobId)] : []),
        ...(events.some((event) => event !== 'started') ? [jobId] : []),
      ];
      await pool.query(command`INSERT INTO webhook (subject_id, organization_id, url, events)
        SELECT unnest(${sql.array(subjectIds, 'text')}), ${organizationId}, ${url},
          ${sql.array([...events], 'text')} ON CONFLICT DO NOTHING`);
    },
    /**
     * Adds the webhook that reports that a step of a job awaits an approval, unless it exists. Returns
     * its subject id; null if the caller did not request it.
     */
    async createForStep(jobId: string, stepId: string): Promise<string | null> {
      const subjectId = waitSubjectId(jobId, stepId);
      const created = await pool.query(command`
        INSERT INTO webhook (subject_id, organization_id, url, events, state, next_attempt_at, overdue_at)
        SELECT ${subjectId}, w.organization_id, w.url, w.events, 'delivering', clock_timestamp(),
          clock_timestamp() + ${unstartedAfter}::interval
        FROM webhook w JOIN job j ON j.id = w.subject_id AND j.status = 'open'
        WHERE w.subject_id = ${jobId} AND 'awaiting_approval' = ANY (w.events)
        ON CONFLICT (subject_id) DO UPDATE SET updated_at = webhook.updated_at`);
      return created.rowCount === 0 ? null : subjectId;
    },
    /** Deletes the webhooks of a job that was rejected. */
    async deleteForJob(jobId: string): Promise<void> {
      await pool.query(command`DELETE FROM webhook
        WHERE subject_id IN (${jobId}, ${startSubjectId(jobId)})
          AND NOT EXISTS (SELECT FROM job j WHERE j.id = ${jobId})`);
    },
    /** Deletes webhooks without a job, and those of a job whose end the caller did not request. */
    async deleteUndeliverable(): Promise<void> {
      await pool.query(command`DELETE FROM webhook
        WHERE (state = 'waiting' AND created_at < clock_timestamp() - ${orphanRetention}::interval
            AND NOT EXISTS (SELECT FROM job j WHERE j.id = webhook.subject_id))
          OR (state IN ('waiting', 'delivering') AND EXISTS (${unrequestedEnd}))`);
    },
    /** Sets a webhook of any state to `delivering`, with the full number of attempts. */
    async resetDelivery(subjectId: string): Promise<void> {
      await pool.query(command`UPDATE webhook SET state = 'delivering',
        attempts_before = attempts, next_attempt_at = clock_timestamp(),
        overdue_at = clock_timestamp() + ${unstartedAfter}::interval, updated_at = clock_timestamp()
        WHERE subject_id = ${subjectId}`);
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
    /** Begins a delivery attempt. Returns null if the webhook no longer needs to be delivered. */
    beginAttempt: ({ subjectId, organizationId }: WebhookIds): Promise<BegunAttempt | null> =>
      pool.maybeOne(sql.type(begunAttempt)`
        WITH begun AS (
          UPDATE webhook SET state = 'delivering', attempts = attempts + 1, next_attempt_at = NULL,
            overdue_at = clock_timestamp() + ${overdueAfter}::interval,
            updated_at = clock_timestamp()
          WHERE subject_id = ${subjectId} AND organization_id = ${organizationId}
            AND state IN ('waiting', 'delivering') AND NOT EXISTS (${unrequestedEnd})
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
          RETURNING subject_id)
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

function createReads(pool: DatabasePool) {
  return {
    /**
     * Returns the webhook of a step or of a job's end, or of its start if the end is not reported; null
     * if the organization has none. The start of a job that no provider accepted is not reported.
     */
    find: ({ jobId, organizationId, step }: JobWebhookIds): Promise<WebhookRecord | null> =>
      pool.maybeOne(sql.type(webhookRecord)`SELECT ${webhookColumns} FROM webhook w
        WHERE w.subject_id = ANY(${sql.array(step === undefined ? [jobId, startSubjectId(jobId)] : [waitSubjectId(jobId, step)], 'text')})
          AND w.organization_id = ${organizationId} AND (w.subject_id = ${jobId} OR w.state <> 'waiting'
            OR EXISTS (SELECT FROM job j WHERE j.id = ${jobId} AND j.status = 'open'))
        ORDER BY w.subject_id = ${jobId} DESC LIMIT 1`),
    /** Returns the newest delivery attempts of a webhook, newest first. */
    attempts: (subjectId: string, limit: number): Promise<readonly WebhookAttempt[]> =>
      pool.any(sql.type(webhookAttempt)`
        SELECT number, outcome, status, error, response, duration_ms AS "durationMs",
          started_at AS "startedAtMs"
        FROM webhook_attempt WHERE subject_id = ${subjectId} ORDER BY number DESC LIMIT ${limit}`),
    /** Returns webhooks of ended jobs, steps, bulk jobs and account notices that no workflow seems to deliver. */
    listOverdue: (): Promise<readonly WebhookIds[]> =>
      pool.any(sql.type(idsRow)`
        SELECT w.subject_id AS "subjectId", w.organization_id AS "organizationId"
        FROM webhook w LEFT JOIN job j ON j.id = w.job_id
            AND (w.subject_id = w.job_id OR w.state = 'delivering')
          LEFT JOIN account_notice n ON n.id = w.subject_id LEFT JOIN bulk_event e ON e.id = w.subject_id
        WHERE w.state IN ('waiting', 'delivering')
          AND (j.status <> 'open' OR starts_with(w.subject_id, 'wait_') OR coalesce(n.id, e.id) IS NOT NULL)
          AND coalesce(w.overdue_at, j.completed_at + ${unstartedAfter}::interval) < clock_timestamp()
        ORDER BY w.created_at LIMIT 100`),
    /**
     * Records that a workflow delivers the webhook. `listOverdue` then omits the webhook for two
     * minutes.
     */
    async recordDeliveryStart(subjectId: string): Promise<void> {
      await pool.query(command`UPDATE webhook
        SET overdue_at = clock_timestamp() + ${overdueAfter}::interval WHERE subject_id = ${subjectId}`);
    },
    /**
     * Lists the webhooks of jobs, newest job first; webhooks/notices.ts lists account notices.
     */
    list({
      organizationId,
      state,
      beforeId,
      limit,
    }: WebhookListing): Promise<readonly ListedWebhook[]> {
      // A start is not reported if no provider accepts the job, so it is listed once it is delivered.
      const conditions = [
        sql.fragment`w.job_id IS NOT NULL AND (w.subject_id = w.job_id OR w.state <> 'waiting')`,
      ];
      if (organizationId !== undefined) {
        conditions.push(sql.fragment`w.organization_id = ${organizationId}`);
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

/** Returns the webhook of a job's end or start, or of a step. @throws GatewayError NOT_FOUND if there is none */
export async function findWebhook(
  webhooks: Pick<Webhooks, 'find'>,
  ids: JobWebhookIds,
): Promise<WebhookRecord> {
  const webhook = await webhooks.find(ids);
  const subject = ids.step === undefined ? 'This job' : 'This step of the job';
  if (!webhook) throw new GatewayError('NOT_FOUND', `${subject} has no webhook.`);
  return webhook;
}
