/**
 * The step of a bulk job: counts what has ended, decides whether the bulk job goes on (bulk.sql), and
 * plans the next items. May run at any time and more than once: an item has one job per attempt,
 * whose id is stored before the job is started.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { sql } from 'slonik';
import { z } from 'zod';
import type { BulkStart, BulkState, AdvanceInput } from '../domain/bulk-contract.ts';
import { errorTable, GatewayError } from '../domain/errors.ts';
import { asJson, type JsonObject } from '../domain/json.ts';
import {
  organizationStatusSchema,
  roleSchema,
  scopes,
  type RequestCaller,
} from '../identity/access.ts';
import { command, isDatabaseUnavailable, type DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import { describeWorkflow } from '../studio/jobs/job-execution.ts';
import { StorageFailure } from '../storage/storage.ts';
import { findLostStarts } from './lost-starts.ts';
import { storeWebhooks } from '../studio/requests/webhook-fields.ts';
import { planItem, storedItem, type ItemServices, type PlannedItem } from './bulk-items.ts';

/** Services of the step. */
export interface AdvanceDeps extends ItemServices {
  pool: DatabasePool;
  client: Client;
  logger: Logger;
}

/** Maximum number of items that one step plans, so that their first steps do not fill the CPU at once. */
const itemsPerStep = 3;
/** Time for which a step collects the ends of jobs, in milliseconds. Each step costs a workflow task. */
const collectMs = 150;
/**
 * Busy share of the worker's event loop above which a step waits before it starts items, at most
 * `collectMaxMs`. Items take the CPU that single jobs leave.
 */
const busyShareMax = 0.3;
const collectMaxMs = 1500;
/**
 * Time limits of the planning of an item, by the number of times that it was postponed, in
 * milliseconds. Planning reads the inputs of the item. An item that takes longer is postponed, so
 * that it delays the items beside it only briefly.
 */
const planningMaxMs = [2000, 15_000] as const;
const lastPlanningMaxMs = 60_000;
/** Number of attempts to plan an item that fails for an unknown reason or takes too long. */
const planningAttemptsMax = 8;

const callerSchema = z.object({
  keyId: z.string(),
  organizationId: z.string(),
  userId: z.string(),
  role: roleSchema,
  organizationStatus: organizationStatusSchema,
  scopes: z.array(z.enum(scopes)),
  allowedModels: z.array(z.string()).nullable(),
});
const advanced = z.object({
  status: z.enum(['in_progress', 'paused', 'completed', 'stopped', 'canceled']),
  stopReason: z.string().nullable(),
  resumeInMs: z.number().nullable(),
  done: z.boolean(),
  total: z.number(),
  waiting: z.number(),
  running: z.number(),
  awaiting: z.number(),
  completed: z.number(),
  failed: z.number(),
  canceled: z.number(),
  chargedMicro: z.number(),
  reservedMicro: z.number(),
  requestId: z.string(),
  organizationId: z.string(),
  pricedAtMs: z.number(),
  caller: callerSchema.nullable(),
  eventId: z.string().nullable(),
  more: z.boolean(),
  chatsMayStart: z.boolean(),
  chatsRunning: z.number(),
  pausedProviders: z.array(z.string()),
  // The rest of an item is checked when it is planned, so that a broken row stops no other item.
  items: z.array(z.looseObject({ index: z.number(), jobId: z.string(), postponed: z.number() })),
  toCancel: z.array(z.string()),
});
export type Advanced = z.infer<typeof advanced>;
const advancedRow = z.object({ state: advanced.nullable() });
const startedRow = z.object({ started: z.array(z.number()) });

/** Item that was not started. */
export interface Unstarted {
  index: number;
  error: { code: string; message: string };
  /** True if the item may start later, because the reason is temporary. */
  canWait: boolean;
}

/** Item that may start, with the id of its job or chat and its price in micro-credits. */
interface PlannedStart {
  index: number;
  jobId: string;
  price: number;
}

/** Result of the planning of the next items. */
interface Planned {
  starts: BulkStart[];
  failures: number;
  postponed: number;
  /** True if further items can be planned at once. */
  hasMore: boolean;
}

/**
 * Runs the step. An aborted step starts no items, because its result reaches no workflow.
 * @throws Error if the bulk job does not exist
 */
export async function advanceBulk(
  deps: AdvanceDeps,
  step: AdvanceInput,
  aborted: AbortSignal,
): Promise<BulkState> {
  const { pool, webhooks } = deps;
  const { bulkId, cancel, live } = step;
  const { missing, lost, ...found } = await findLostStarts(deps, bulkId, live);
  const rejected = [...step.rejected, ...found.rejected];
  for (const jobId of [...rejected, ...lost]) await webhooks.deleteForJob(jobId);
  if (cancel) await cancelByOperator(pool, bulkId);
  if (live.length > 0) await collectEnds();
  aborted.throwIfAborted();
  const counted = { bulkId, missing, rejected, lost, itemsMax: itemsPerStep };
  const state = await advanceRows(pool, counted);
  const {
    items: _items,
    caller,
    requestId: _,
    organizationId: __,
    pausedProviders: ___,
    pricedAtMs: ____,
    more,
    ...shown
  } = state;
  const { starts, failures, ...next } = caller
    ? await startItems(deps, { bulkId, state, caller, aborted })
    : nothingPlanned;
  const left = state.waiting - starts.length - failures;
  return {
    ...shown,
    waiting: left,
    running: state.running + starts.length,
    failed: state.failed + failures,
    starts,
    ...next,
    hasMore: next.hasMore || more,
  };
}

/**
 * Counts what has ended, and returns the next items to start (bulk.sql).
 * @throws Error if the bulk job does not exist
 */
export async function advanceRows(
  pool: DatabasePool,
  input: JsonObject & { bulkId: string },
): Promise<Advanced> {
  const state = await pool.oneFirst(
    sql.type(advancedRow)`SELECT bulk_advance(${sql.jsonb(input)}) AS state`,
  );
  if (!state) throw new Error(`the bulk job ${input.bulkId} does not exist`);
  return state;
}

/** Waits for the ends of further jobs, longer while the worker is busy. */
async function collectEnds(): Promise<void> {
  for (let waitedMs = 0; waitedMs < collectMaxMs; waitedMs += collectMs) {
    const before = performance.eventLoopUtilization();
    await sleep(collectMs);
    if (performance.eventLoopUtilization(before).utilization < busyShareMax) return;
  }
}

/** Cancels the waiting items, because an operator has canceled the workflow. */
async function cancelByOperator(pool: DatabasePool, bulkId: string): Promise<void> {
  await pool.query(command`
    SELECT bulk_command(jsonb_build_object('bulkId', id, 'organizationId', organization_id, 'command', 'cancel'))
    FROM bulk WHERE id = ${bulkId} AND status IN ('in_progress', 'paused')`);
}

const nothingPlanned: Planned = { starts: [], failures: 0, postponed: 0, hasMore: false };

/** Bulk job of a step, with the key that it acts with and the signal that aborts the step. */
interface StepContext {
  bulkId: string;
  state: Advanced;
  caller: RequestCaller;
  aborted: AbortSignal;
}

/** Plans the next items, and records which of them start. */
async function startItems(
  deps: AdvanceDeps,
  { bulkId, state, caller, aborted }: StepContext,
): Promise<Planned> {
  const { pool } = deps;
  if (state.items.length === 0) return nothingPlanned;
  const results = await Promise.all(
    state.items.map((item) =>
      planInTime(deps, item, {
        requestId: state.requestId,
        caller,
        pricedAtMs: state.pricedAtMs,
      }).catch((error: unknown) => toUnstarted(deps, item, error)),
    ),
  );
  const planned = results.filter((result): result is PlannedItem => 'plan' in result);
  if (aborted.aborted) {
    for (const item of planned) await item.discard();
    aborted.throwIfAborted();
  }
  const unstarted = results.filter((result): result is Unstarted => !('plan' in result));
  const failures = unstarted.filter(({ canWait }) => !canWait);
  const postponed = unstarted.filter(({ canWait }) => canWait);
  const starts = planned.map(({ index, plan, priceMicro: price }) => ({
    index,
    jobId: plan.jobId,
    price,
  }));
  const started = await recordStarts(pool, bulkId, { starts, unstarted });
  const items: BulkStart[] = [];
  for (const item of planned) {
    if (!started.has(item.index)) {
      await item.discard();
      continue;
    }
    const plan = await storeWebhooks(deps, item.plan, item.webhook);
    items.push(describeStart(plan, bulkId, item.index));
  }
  // The end of the bulk job is found by the next step. Items that have been postponed before wait
  // for a while.
  const isFirstTime = state.items.some(
    ({ index, postponed: times }) => times === 0 && postponed.some((item) => item.index === index),
  );
  const hasMore =
    failures.length > 0 ||
    isFirstTime ||
    (items.length > 0 && state.items.length === itemsPerStep && state.waiting > items.length);
  return { starts: items, failures: failures.length, postponed: postponed.length, hasMore };
}

/** Records which items start, and why others do not. Returns the indexes of those that may start. */
export async function recordStarts(
  pool: DatabasePool,
  bulkId: string,
  { starts, unstarted }: { starts: PlannedStart[]; unstarted: Unstarted[] },
): Promise<ReadonlySet<number>> {
  const toRows = (canWait: boolean) =>
    unstarted.filter((item) => item.canWait === canWait).map((item) => asJson(item));
  const rows = { bulkId, starts: starts.map((start) => ({ ...start })) };
  const input = sql.jsonb({ ...rows, failures: toRows(false), postponed: toRows(true) });
  return new Set(
    await pool.oneFirst(sql.type(startedRow)`SELECT bulk_start_items(${input}) AS started`),
  );
}

function describeStart(plan: PlannedItem['plan'], bulkId: string, index: number): BulkStart {
  const { staticDetails, ...described } = describeWorkflow(plan);
  return {
    plan: { ...plan, inBulk: true },
    ...described,
    staticDetails: `item ${index} of bulk job \`${bulkId}\`\n\n${staticDetails}`,
  };
}

export type NextItem = Advanced['items'][number];

/** Plans an item within its time limit. @throws GatewayError; PlanningTimeout */
async function planInTime(
  deps: AdvanceDeps,
  { jobId, postponed, ...item }: NextItem,
  sender: { requestId: string; caller: RequestCaller; pricedAtMs: number },
): Promise<PlannedItem> {
  const planning = planItem(storedItem.parse(item), { jobId, ...sender }, deps);
  const timer = new AbortController();
  const limitMs = planningMaxMs[postponed] ?? lastPlanningMaxMs;
  const timeout = sleep(limitMs, 'timeout' as const, timer).catch(() => 'timeout' as const);
  const result = await Promise.race([planning, timeout]).finally(() => timer.abort());
  if (result !== 'timeout') return result;
  // The copies of its inputs belong to no job.
  void planning.then((planned) => planned.discard()).catch(() => {});
  throw new PlanningTimeout();
}

class PlanningTimeout extends Error {
  override readonly name = 'PlanningTimeout';
  override readonly message = 'The inputs of the item could not be read in time.';
}

/**
 * Returns why an item cannot be started. An item that fails for an unknown reason, or takes too long,
 * fails after `planningAttemptsMax` attempts, so that it does not stop the others.
 * @throws an error of the database, which concerns all items
 */
export function toUnstarted(
  { logger }: Pick<AdvanceDeps, 'logger'>,
  { index, postponed }: NextItem,
  error: unknown,
): Unstarted {
  if (error instanceof GatewayError) {
    const { code, message } = error;
    return { index, error: { code, message }, canWait: errorTable[code].retryable };
  }
  if (isDatabaseUnavailable(error)) throw error;
  logger.warn({ error, index, postponed }, 'bulk.item_not_planned');
  const isSlow = error instanceof PlanningTimeout;
  const code = isSlow ? 'SERVICE_UNAVAILABLE' : 'Internal server error';
  const isStorage = error instanceof StorageFailure && error.retryable;
  return {
    index,
    error: { code, message: isSlow ? error.message : errorTable[code].message },
    canWait: isStorage || postponed + 1 < planningAttemptsMax,
  };
}
