/**
 * Audits every guarantee about credits and results, with queries that share no code with the
 * ledger. The audit reads Postgres. If the caller gives access to them, it also reads workflows,
 * stored files and the calls that the provider sandbox logged as accepted.
 */
import { isDeepStrictEqual } from 'node:util';
import { sql } from 'slonik';
import { z } from 'zod';
import { command, type DatabasePool } from '../platform/database.ts';
import { digestStream } from '../storage/spool.ts';
import type { Storage } from '../storage/storage.ts';
import { createUsageSums, usageSum } from './usage-sums.ts';
import {
  findViolations,
  invariantNames,
  type AuditOptions,
  type AuditScope,
  type Finding,
} from './invariants.ts';

/** Call that the provider sandbox logged as accepted. */
export interface LoggedCall {
  webhookUrl: string | null;
  idempotencyKey: string | null;
}

/** Sources that an audit reads. A check whose source is absent is not run. */
export interface AuditSources {
  databaseUrl: string;
  pool: DatabasePool;
  /** Returns whether the workflow of a job is running. */
  hasRunningWorkflow?: (jobId: string) => Promise<boolean>;
  storage?: Pick<Storage, 'open'>;
  /** Returns the calls that the provider sandbox logged as accepted. */
  acceptedCalls?: () => Promise<readonly LoggedCall[]>;
}

interface AuditCheck {
  name: string;
  /** Number of objects that were checked one by one; null if one SQL statement checked all rows. */
  examined: number | null;
  /** Ids or storage keys of the objects that violate the invariant. */
  subjects: string[];
}

/** Maximum number of violations that a report lists for one check. */
export const violationsShownMax = 100;

/** Report of an audit. */
export interface AuditReport {
  scope: AuditScope;
  clean: boolean;
  at: string;
  tookMs: number;
  /** Numbers of ledger entries and reservations that were checked. */
  entries: number;
  reservations: number;
  checks: AuditCheck[];
}

const missingWorkflowCheck = 'an open reservation has no running workflow';
const damagedResultCheck = 'a charged result is missing, or its hash is not the recorded one';
const monthCheck = 'the usage report of a month differs from its archive, jobs and chats';
const repeatedCallCheck = 'a provider accepted one call more than once';

const emptyRow = z.object({});

/**
 * Runs every check whose source is given, and stores the result. `scope` selects the rows of the
 * ledger that are checked.
 * @throws any error of a source
 */
export async function runAudit(sources: AuditSources, options: AuditOptions): Promise<AuditReport> {
  const { pool } = sources;
  const startedAt = performance.now();
  const at = new Date().toISOString();
  const { findings, entries, reservations } = await findViolations(sources.databaseUrl, options);
  const checks = groupByName(findings);
  if (options.scope === 'all') checks.push(await checkArchivedMonths(pool));
  if (sources.hasRunningWorkflow)
    checks.push(await checkWorkflows(pool, sources.hasRunningWorkflow));
  if (sources.storage) checks.push(await checkResults(pool, sources.storage));
  if (sources.acceptedCalls) checks.push(checkAcceptedCalls(await sources.acceptedCalls()));
  const found = checks.reduce((sum, { subjects }) => sum + subjects.length, 0);
  await pool.query(command`
    INSERT INTO last_audit (scope, entries, reservations, findings, started_at, finished_at)
    VALUES (${options.scope}, ${entries}, ${reservations}, ${found}, ${at}, clock_timestamp())
    ON CONFLICT (scope) DO UPDATE SET entries = excluded.entries, reservations = excluded.reservations,
      findings = excluded.findings, started_at = excluded.started_at, finished_at = excluded.finished_at`);
  return {
    scope: options.scope,
    clean: found === 0,
    at,
    tookMs: Math.round(performance.now() - startedAt),
    entries,
    reservations,
    checks,
  };
}

/**
 * Returns whether this process is to audit all rows now: no process has begun to in the last 24
 * hours. The next call, of any process, then returns false.
 */
export async function claimDailyAudit(pool: DatabasePool): Promise<boolean> {
  const claimed = await pool.maybeOne(sql.type(emptyRow)`
    INSERT INTO last_audit (scope, started_at) VALUES ('all', clock_timestamp())
    ON CONFLICT (scope) DO UPDATE SET started_at = excluded.started_at
      WHERE last_audit.started_at < clock_timestamp() - interval '24 hours'
    RETURNING scope`);
  return claimed !== null;
}

function groupByName(findings: readonly Finding[]): AuditCheck[] {
  const names = new Set([...invariantNames, ...findings.map(({ finding }) => finding)]);
  return [...names].map((name) => ({
    name,
    examined: null,
    subjects: findings.filter(({ finding }) => finding === name).map(({ subject }) => subject),
  }));
}

const monthRow = z.object({
  organizationId: z.string(),
  month: z.string(),
  afterMs: z.number(),
  beforeMs: z.number(),
});

/**
 * Compares the usage reports of months with the sums of their archived jobs and chats, and of those
 * that remain. A month that differs is read again, because a job may be refunded meanwhile.
 */
async function checkArchivedMonths(pool: DatabasePool): Promise<AuditCheck> {
  const sums = createUsageSums(pool);
  const months = await pool.any(sql.type(monthRow)`
    SELECT m.organization_id AS "organizationId", to_char(m.month, 'YYYY-MM') AS month,
      m.month::timestamp AT TIME ZONE 'UTC' AS "afterMs",
      (m.month + interval '1 month') AT TIME ZONE 'UTC' AS "beforeMs"
    FROM archived_month m ORDER BY 1, 2`);
  const differs = async (one: z.infer<typeof monthRow>): Promise<boolean> => {
    const { organizationId, month, afterMs, beforeMs } = one;
    const period = { afterMs, beforeMs, groupBy: ['month'] as const, limit: 2 };
    const expected = await pool.one(sql.type(usageSum)`
      SELECT ${sql.jsonb([month])} AS keys, (m.requests + coalesce(sum(u.requests), 0))::bigint AS requests,
        (m.net + coalesce(sum(u.net), 0))::bigint AS "creditsMicro",
        (m.input_tokens + coalesce(sum(u.input_tokens), 0))::bigint AS "inputTokens",
        (m.output_tokens + coalesce(sum(u.output_tokens), 0))::bigint AS "outputTokens"
      FROM archived_month m LEFT JOIN LATERAL usage_of_days(m.organization_id, m.month,
        (m.month + interval '1 month' - interval '1 day')::date) AS u ON true
      WHERE m.organization_id = ${organizationId} AND m.month = ${`${month}-01`}::date GROUP BY m.organization_id, m.month`);
    return !isDeepStrictEqual(await sums.sum(organizationId, period), [expected]);
  };
  const subjects: string[] = [];
  for (const one of months) {
    if ((await differs(one)) && (await differs(one))) {
      subjects.push(`${one.organizationId} ${one.month}`);
    }
  }
  return { name: monthCheck, examined: months.length, subjects };
}

const idRow = z.object({ id: z.string() });

function listOpenReservations(pool: DatabasePool, ids: readonly string[] | null) {
  return pool.anyFirst(sql.type(idRow)`
    SELECT id FROM reservation WHERE state = 'reserved' AND kind = 'studio'
      AND (${ids === null} OR id = ANY(${sql.array(ids ?? [], 'text')}))
    ORDER BY created_at, id LIMIT 5000`);
}

/**
 * Finds open reservations whose job has no running workflow. Reads the found reservations again,
 * because jobs may have ended during the check.
 */
async function checkWorkflows(
  pool: DatabasePool,
  hasRunningWorkflow: NonNullable<AuditSources['hasRunningWorkflow']>,
): Promise<AuditCheck> {
  const openIds = await listOpenReservations(pool, null);
  const missingIds: string[] = [];
  for (const id of openIds) {
    // One workflow is read at a time, so that an audit puts little load on Temporal.
    if (!(await hasRunningWorkflow(id))) missingIds.push(id);
  }
  const subjects = missingIds.length > 0 ? await listOpenReservations(pool, missingIds) : [];
  return { name: missingWorkflowCheck, examined: openIds.length, subjects: [...subjects] };
}

const artifactRow = z.object({
  storage_key: z.string(),
  size_bytes: z.number(),
  sha256: z.string(),
});

async function checkResults(
  pool: DatabasePool,
  storage: Pick<Storage, 'open'>,
): Promise<AuditCheck> {
  const subjects: string[] = [];
  let examined = 0;
  for (let lastStorageKey = ''; ;) {
    // The artifacts are read in pages, to limit memory use.
    const page = await pool.any(sql.type(artifactRow)`
      SELECT f.storage_key, f.size_bytes, f.sha256 FROM artifact f JOIN job j ON j.id = f.job_id
      WHERE j.status = 'completed' AND f.deleted_at IS NULL AND f.storage_key > ${lastStorageKey}
      ORDER BY f.storage_key LIMIT 500`);
    for (const row of page) {
      if (!(await hasRecordedHash(storage, row))) subjects.push(row.storage_key);
    }
    examined += page.length;
    const last = page.at(-1);
    if (!last) return { name: damagedResultCheck, examined, subjects };
    lastStorageKey = last.storage_key;
  }
}

async function hasRecordedHash(
  storage: Pick<Storage, 'open'>,
  row: z.infer<typeof artifactRow>,
): Promise<boolean> {
  const object = await storage.open(row.storage_key);
  if (!object) return false;
  const { sizeBytes, sha256 } = await digestStream(object.stream);
  return sizeBytes === row.size_bytes && sha256 === row.sha256;
}

/** Pattern of the job id and the call index in a notification URL or an idempotency key. */
const callPattern = /(job_[0-9a-f]{32})[:/](\d{1,3})(?:\/|$)/;

/** Checks that providers accepted each call at most once. */
function checkAcceptedCalls(acceptedCalls: readonly LoggedCall[]): AuditCheck {
  const countByCall = new Map<string, number>();
  for (const { webhookUrl, idempotencyKey } of acceptedCalls) {
    const [, jobId, call] = callPattern.exec(webhookUrl ?? idempotencyKey ?? '') ?? [];
    if (jobId === undefined) continue;
    const callId = `${jobId}:${call}`;
    countByCall.set(callId, (countByCall.get(callId) ?? 0) + 1);
  }
  const subjects = [...countByCall].filter(([, count]) => count > 1).map(([callId]) => callId);
  return { name: repeatedCallCheck, examined: countByCall.size, subjects };
}
