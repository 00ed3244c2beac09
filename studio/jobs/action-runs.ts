/**
 * Action runs of operators: one action on many jobs. The jobs are chosen when the action run starts
 * and are rows, so that its workflow can be reset, terminated or started again at any time.
 */
import type { Client } from '@temporalio/client';
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import {
  actionRunWorkflowType,
  type ActionRunState,
  type ActInput,
} from '../../domain/action-contract.ts';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { searchAttributes } from '../../domain/job-contract.ts';
import { keysOf, type JsonObject } from '../../domain/json.ts';
import { recordAction, type ActionRequest } from '../../identity/operators.ts';
import type { IsolationReport } from '../../platform/background.ts';
import type { Config } from '../../platform/config.ts';
import { command, type DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import { actionRunKey, type JobActionRequest, type JobActions } from './job-actions.ts';
import { buildConditions, type JobFilter, type JobOverview } from './job-reads.ts';
import { startExecution, sweepExecutions } from '../../executions/keeper.ts';

/** Conditions of the jobs that an action can change. Jobs that are named by id need not fulfil them. */
const applicable = {
  cancel: sql.fragment`x.status = 'open'`,
  reverify: sql.fragment`(x.status = 'open' OR x.unknown_outcome IS NOT NULL)`,
  resettle: sql.fragment`x.status = 'open'`,
  redeliver: sql.fragment`(x.status <> 'open' AND EXISTS (SELECT FROM webhook w
    WHERE w.job_id = x.id AND starts_with(w.subject_id, 'job_') AND w.state IN ('failed', 'gone')))`,
  refund: sql.fragment`(r.state = 'charged' AND r.charged > coalesce(r.refunded, 0))`,
} as const satisfies Record<keyof JobActions, FragmentSqlToken>;
/** Name of an action. */
type ActionName = keyof typeof applicable;
export const actionNames = keysOf(applicable);

/** Choice of jobs: those that fulfil all conditions. */
interface JobChoice extends JobFilter {
  /** Only these jobs, also unknown ones and those that the action cannot change. */
  jobIds?: readonly string[] | undefined;
  organizationId?: string | undefined;
  /** Bulk job to whose items the jobs belong. */
  bulkId?: string | undefined;
  olderThanSeconds?: number | undefined;
}

/** Action run to start, or to try. */
interface ActionRunOrder {
  action: ActionName;
  choice: JobChoice;
  jobsMax: number;
  perSecond: number;
  /** The request as it is shown, with its options. */
  request: JsonObject;
}

/** Request for an action run, with its Idempotency-Key. */
type ActionRunCall = ActionRequest & { requestKey: string | null };

const preview = z.object({
  jobs: z.number(),
  applicable: z.number(),
  creditsMicro: z.number(),
  sample: z.array(z.string()),
});

const error = z.object({ code: z.string(), message: z.string() });
/** Schema of an action run with its progress. */
export const actionRunRecord = z.object({
  bulkActionId: z.string(),
  action: z.enum(actionNames),
  status: z.enum(['running', 'completed', 'canceled']),
  request: z.record(z.string(), z.json()),
  actor: z.string(),
  reason: z.string(),
  requestId: z.string(),
  jobs: z.int(),
  waiting: z.int(),
  done: z.int(),
  rejected: z.int(),
  creditsMicro: z.number(),
  createdAtMs: z.number(),
  completedAtMs: z.number().nullable(),
});
export type ActionRunRecord = z.infer<typeof actionRunRecord>;

/** Schema of a job on which the action was not possible. */
export const rejectedJob = z.object({ jobId: z.string(), error });

const idRow = z.object({ id: z.string() });
const dueRow = idRow.extend({ perSecond: z.number(), missingForMs: z.null() });
const earlierRow = idRow.extend({ same: z.boolean() });
const countRow = z.object({ count: z.number() });

/** Time after which an action run is expected to have a workflow. */
const startGrace = '30 seconds';

const credits = sql.fragment`CASE r.state WHEN 'reserved' THEN r.amount
  WHEN 'charged' THEN r.charged - coalesce(r.refunded, 0) ELSE 0 END`;

/** Selects the ids, the credits and the applicability of the chosen jobs. */
function selectJobs(action: ActionName, choice: JobChoice, limit: number): FragmentSqlToken {
  const { jobIds, organizationId = null, bulkId, olderThanSeconds, ...filter } = choice;
  const where = buildConditions(organizationId, { ...filter, limit });
  if (bulkId !== undefined)
    where.push(sql.fragment`x.id IN (SELECT job_id FROM bulk_item WHERE bulk_id = ${bulkId})`);
  if (olderThanSeconds !== undefined) {
    const age = sql.fragment`${olderThanSeconds} * interval '1 second'`;
    where.push(sql.fragment`x.created_at < clock_timestamp() - ${age}`);
  }
  if (!jobIds) where.push(applicable[action]);
  const source = jobIds
    ? sql.fragment`(SELECT DISTINCT unnest(${sql.array([...jobIds], 'text')}) AS id) AS i
        LEFT JOIN job x ON x.id = i.id LEFT JOIN reservation r ON r.id = i.id`
    : sql.fragment`job x JOIN reservation r ON r.id = x.id`;
  return sql.fragment`SELECT ${jobIds ? sql.fragment`i.id` : sql.fragment`x.id`} AS id,
      coalesce(${credits}, 0) AS credits, coalesce(${applicable[action]}, false) AS applicable
    FROM ${source} WHERE ${sql.join(where, sql.fragment` AND `)} LIMIT ${limit}`;
}

const selectRecords = (where: FragmentSqlToken, limit: number): FragmentSqlToken => sql.fragment`
  SELECT b.id AS "bulkActionId", b.action, b.status, b.request, b.actor, b.reason,
    b.request_id AS "requestId", b.created_at AS "createdAtMs", b.completed_at AS "completedAtMs", j.*
  FROM bulk_action b, LATERAL (SELECT count(*) AS jobs,
      count(*) FILTER (WHERE state = 'waiting') AS waiting,
      count(*) FILTER (WHERE state = 'done') AS done,
      count(*) FILTER (WHERE state = 'rejected') AS rejected,
      coalesce(sum(credits), 0)::bigint AS "creditsMicro"
    FROM bulk_action_job WHERE bulk_action_id = b.id) AS j
  WHERE ${where} ORDER BY b.id DESC LIMIT ${limit}`;

function tooManyJobs(jobsMax: number): GatewayError {
  const message = `must be at least the number of matching jobs, which is more than ${jobsMax}`;
  return fieldError('INVALID_REQUEST', 'jobsMax', message);
}

interface ActionRunDeps {
  pool: DatabasePool;
  client: Client;
  config: Config;
  logger: Logger;
}

function createReads(pool: DatabasePool) {
  return {
    /** Reads an action run; null if it does not exist. */
    find: (id: string): Promise<ActionRunRecord | null> =>
      pool.maybeOne(sql.type(actionRunRecord)`${selectRecords(sql.fragment`b.id = ${id}`, 1)}`),
    /** Lists action runs, newest first. */
    list: ({ beforeId = null, limit }: { beforeId?: string | null | undefined; limit: number }) =>
      pool.any(
        sql.type(actionRunRecord)`${selectRecords(
          sql.fragment`(${beforeId}::text IS NULL OR b.id < ${beforeId}::text)`,
          limit,
        )}`,
      ),
    /** Lists the first jobs on which the action was not possible. */
    rejections: (id: string, limit: number) =>
      pool.any(sql.type(rejectedJob)`SELECT job_id AS "jobId", error FROM bulk_action_job
        WHERE bulk_action_id = ${id} AND state = 'rejected' ORDER BY job_id LIMIT ${limit}`),
  };
}

/** Creates the functions that start, read, cancel and sweep action runs. */
export function createActionRuns(deps: ActionRunDeps) {
  const { pool, logger } = deps;

  return {
    ...createReads(pool),
    /** Counts the chosen jobs. @throws GatewayError INVALID_REQUEST if there are more than `jobsMax` */
    async preview({ action, choice, jobsMax }: ActionRunOrder): Promise<z.infer<typeof preview>> {
      const counts = await pool.one(sql.type(preview)`
        SELECT count(*) AS jobs, count(*) FILTER (WHERE applicable) AS applicable,
          coalesce(sum(credits) FILTER (WHERE applicable), 0)::bigint AS "creditsMicro",
          coalesce((array_agg(id ORDER BY id))[1:10], '{}') AS sample
        FROM (${selectJobs(action, choice, jobsMax + 1)}) AS chosen`);
      if (counts.jobs > jobsMax) throw tooManyJobs(jobsMax);
      return counts;
    },
    /**
     * Starts an action run. Returns its id, and whether the same request had started it before.
     * @throws GatewayError INVALID_REQUEST if there are more than `jobsMax` jobs
     * @throws GatewayError IDEMPOTENCY_KEY_REUSED
     */
    async start(
      order: ActionRunOrder,
      call: ActionRunCall,
    ): Promise<{ id: string; repeated: boolean }> {
      const started = await pool.transaction((connection) => store(connection, order, call));
      if (started.repeated) return started;
      // If Temporal cannot be reached, the sweeper starts the workflow later.
      await startWorkflow(deps, { id: started.id, perSecond: order.perSecond }).catch(
        (failure: unknown) =>
          logger.warn({ error: failure, bulkActionId: started.id }, 'bulk_action.not_started'),
      );
      return started;
    },
    /** Cancels the actions that have not been performed. Changes nothing after the end. */
    async cancel(id: string, call: ActionRequest): Promise<void> {
      await pool.transaction(async (connection) => {
        if (!(await cancelRun(connection, id))) return;
        await recordAction(connection, call, { action: 'bulk_action.canceled', subject: id });
      });
    },
    /** Starts those that have no workflow yet, and cancels those whose workflow was ended. */
    sweep: (): Promise<IsolationReport> =>
      sweepExecutions(deps, {
        subject: 'action run',
        listDue: () =>
          pool.any(sql.type(dueRow)`
            SELECT id, (request->>'perSecond')::integer AS "perSecond", NULL AS "missingForMs"
            FROM bulk_action
            WHERE completed_at IS NULL AND created_at < clock_timestamp() - ${startGrace}::interval
            ORDER BY id LIMIT 100`),
        onRunning: () => Promise.resolve(),
        onMissing: (run) => startWorkflow(deps, run),
        onEnded: ({ id }) => cancelRun(pool, id),
      }),
  };
}
export type ActionRuns = ReturnType<typeof createActionRuns>;

const startWorkflow = (
  deps: ActionRunDeps,
  { id, perSecond }: { id: string; perSecond: number },
): Promise<void> =>
  startExecution(deps, {
    id,
    type: actionRunWorkflowType,
    input: { bulkActionId: id, perSecond },
    typedSearchAttributes: [{ key: searchAttributes.jobStatus, value: 'in_progress' }],
    staticSummary: 'bulk action of an operator',
  });

/** Stores an action run with its jobs, unless the same request has stored it before. */
async function store(
  connection: CommonQueryMethods,
  { action, choice, jobsMax, request }: ActionRunOrder,
  call: ActionRunCall,
): Promise<{ id: string; repeated: boolean }> {
  const { actor, reason } = call.body;
  const created = await connection.maybeOne(sql.type(idRow)`
    INSERT INTO bulk_action (id, action, request, request_key, actor, reason, request_id)
      VALUES (${newId('actionRun')}, ${action}, ${sql.jsonb(request)}, ${call.requestKey},
        ${actor}, ${reason}, ${call.requestId})
      ON CONFLICT (request_key) DO NOTHING RETURNING id`);
  if (!created) {
    const earlier = await connection.one(sql.type(earlierRow)`SELECT id,
        action = ${action} AND request = ${sql.jsonb(request)} AND reason = ${reason} AS same
      FROM bulk_action WHERE request_key = ${call.requestKey}`);
    if (!earlier.same) throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
    return { id: earlier.id, repeated: true };
  }
  const { id } = created;
  const jobs = await insertJobs(connection, id, selectJobs(action, choice, jobsMax + 1));
  if (jobs > jobsMax) throw tooManyJobs(jobsMax);
  const details: JsonObject = { ...request, action, jobs };
  await recordAction(connection, call, { action: 'bulk_action.started', subject: id, details });
  return { id, repeated: false };
}

function insertJobs(
  connection: CommonQueryMethods,
  id: string,
  jobs: FragmentSqlToken,
): Promise<number> {
  return connection.oneFirst(sql.type(countRow)`
    WITH inserted AS (INSERT INTO bulk_action_job (bulk_action_id, job_id, credits)
      SELECT ${id}, chosen.id, chosen.credits FROM (${jobs}) AS chosen RETURNING job_id)
    SELECT count(*) AS count FROM inserted`);
}

/** Cancels an action run. Returns false if it has ended. */
async function cancelRun(connection: CommonQueryMethods, id: string): Promise<boolean> {
  const { rowCount } = await connection.query(command`
    UPDATE bulk_action SET status = 'canceled', completed_at = clock_timestamp()
    WHERE id = ${id} AND status = 'running'`);
  return rowCount > 0;
}

/** Services of the step `actOnNextJobs`. */
export interface ActDeps {
  pool: DatabasePool;
  jobOverview: JobOverview;
  jobActions: JobActions;
}

/**
 * Performs the action on the next jobs of an action run. May be repeated: each job has one record of
 * the action, and an ended job that has this record counts as done. With `isLast`, an unexpected error
 * of a job rejects the job, so that it does not stop the others.
 */
export async function actOnNextJobs(
  deps: ActDeps,
  { bulkActionId: id, perSecond, cancel }: ActInput,
  isLast: boolean,
): Promise<ActionRunState> {
  const { pool } = deps;
  if (cancel) await cancelRun(pool, id);
  const query = sql.type(actionRunRecord)`${selectRecords(sql.fragment`b.id = ${id}`, 1)}`;
  const run = await pool.one(query);
  if (run.status === 'running') {
    const jobIds = await pool.anyFirst(sql.type(idRow)`SELECT job_id AS id FROM bulk_action_job
      WHERE bulk_action_id = ${id} AND state = 'waiting' ORDER BY job_id LIMIT ${perSecond}`);
    const results = await Promise.allSettled(
      jobIds.map((jobId) => actOnJob(deps, { jobId, run, isLast })),
    );
    const failed = results.find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
    await pool.query(command`UPDATE bulk_action SET status = 'completed', completed_at = clock_timestamp()
      WHERE id = ${id} AND status = 'running' AND NOT EXISTS (SELECT FROM bulk_action_job
        WHERE bulk_action_id = ${id} AND state = 'waiting')`);
  }
  const { status, action, reason, waiting, done, rejected } = await pool.one(query);
  return { status, action, reason, waiting, done, rejected };
}

interface JobToChange {
  jobId: string;
  run: ActionRunRecord;
  isLast: boolean;
}

/** Performs the action on a job, and stores whether it was possible. */
async function actOnJob(deps: ActDeps, { jobId, run, isLast }: JobToChange): Promise<void> {
  const { bulkActionId } = run;
  // An interrupted step may have performed the action before.
  const isRepeat = await deps.pool.exists(command`SELECT FROM admin_action
    WHERE action_key = ${actionRunKey(bulkActionId, jobId)}`);
  let rejection: z.infer<typeof error> | null = null;
  try {
    await performAction(deps, jobId, run);
  } catch (failure) {
    // While a server is away, the step fails and is repeated.
    const isDecided = failure instanceof GatewayError && failure.status < 500;
    if (!isDecided && !isLast) throw failure;
    if (!(failure instanceof GatewayError))
      rejection = { code: 'INTERNAL_ERROR', message: String(failure) };
    else if (!isRepeat || !repeatErrors.has(failure.code))
      rejection = { code: failure.code, message: failure.message };
  }
  const stored = rejection && sql.jsonb(rejection);
  await deps.pool.query(command`UPDATE bulk_action_job
    SET state = ${rejection ? 'rejected' : 'done'}, error = ${stored}
    WHERE bulk_action_id = ${bulkActionId} AND job_id = ${jobId} AND state = 'waiting'`);
}

async function performAction(
  { jobOverview, jobActions }: ActDeps,
  jobId: string,
  { bulkActionId, action, request: { release }, actor, reason, requestId }: ActionRunRecord,
): Promise<void> {
  const job = await jobOverview.find(jobId);
  if (!job) throw new GatewayError(await jobOverview.missing(jobId));
  const request: JobActionRequest = { body: { actor, reason }, requestId, bulkActionId };
  if (action === 'refund') await jobActions.refund(job, request, { refundId: bulkActionId });
  else if (action === 'resettle')
    await jobActions.resettle(job, request, { release: release === true });
  else await jobActions[action](job, request);
}

/** Errors of an action that was performed before a crash. */
const repeatErrors = new Set(['JOB_ALREADY_DONE', 'JOB_RUNNING']);
