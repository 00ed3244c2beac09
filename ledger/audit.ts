/**
 * Audits every guarantee about credits and results, with queries that share no code with the
 * ledger. The audit reads Postgres and, if the caller gives access to them, workflows, stored files
 * and the submissions that the sandbox provider logged as accepted.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';
import { digestStream } from '../storage/spool.ts';
import type { Storage } from '../storage/storage.ts';
import { findViolations, invariantNames, type Finding } from './invariants.ts';

/** Submission that the sandbox provider logged as accepted. */
export interface LoggedSubmission {
  webhookUrl: string | null;
  idempotencyKey: string | null;
}

/** Data that an audit may read. Checks whose source is missing are not run. */
export interface AuditSources {
  databaseUrl: string;
  pool: DatabasePool;
  /** Returns whether a running workflow owns this job. */
  isOwned?: (jobId: string) => Promise<boolean>;
  storage?: Pick<Storage, 'open'>;
  /** Returns the submissions that the sandbox provider logged as accepted. */
  submissions?: () => Promise<readonly LoggedSubmission[]>;
}

interface AuditCheck {
  name: string;
  /** Number of subjects checked one by one; null if one SQL statement checked all rows. */
  examined: number | null;
  /** Ids of the rows that fail the check. */
  subjects: string[];
}

/** Maximum ids that a report shows for one check. */
export const subjectsShownMax = 100;

/** Report of an audit. */
export interface AuditReport {
  clean: boolean;
  at: string;
  tookMs: number;
  checks: AuditCheck[];
  /** Micro-credits of chat usage that neither the balance nor the budget of the key could cover. */
  chatLossMicro: number;
}

const unownedCheck = 'an open reservation has no running workflow';
const unreadableCheck = 'a paid result is not readable with its recorded hash';
const repeatedCheck = 'a provider accepted one call more than once';

const emptyRow = z.object({});

/**
 * Runs every check whose source is given, and records the number of violations.
 * @throws any error of a source
 */
export async function runAudit(sources: AuditSources): Promise<AuditReport> {
  const startedAt = performance.now();
  const at = new Date().toISOString();
  const checks = groupByName(await findViolations(sources.databaseUrl));
  if (sources.isOwned) checks.push(await checkOwners(sources.pool, sources.isOwned));
  if (sources.storage) checks.push(await checkResults(sources.pool, sources.storage));
  if (sources.submissions) checks.push(checkSubmissions(await sources.submissions()));
  const findings = checks.reduce((sum, { subjects }) => sum + subjects.length, 0);
  await sources.pool.query(sql.type(emptyRow)`
    INSERT INTO last_audit (findings, finished_at) VALUES (${findings}, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET findings = excluded.findings, finished_at = excluded.finished_at`);
  return {
    clean: findings === 0,
    at,
    tookMs: Math.round(performance.now() - startedAt),
    checks,
    chatLossMicro: await sources.pool.oneFirst(sql.type(lossRow)`
      SELECT coalesce(sum(loss_micro), 0)::bigint AS loss FROM reservation WHERE loss_micro > 0`),
  };
}

function groupByName(findings: readonly Finding[]): AuditCheck[] {
  const names = new Set([...invariantNames, ...findings.map(({ finding }) => finding)]);
  return [...names].map((name) => ({
    name,
    examined: null,
    subjects: findings.filter(({ finding }) => finding === name).map(({ subject }) => subject),
  }));
}

const lossRow = z.object({ loss: z.number() });
const openIds = z.object({ id: z.string() });

function listOpenReservations(pool: DatabasePool, ids: readonly string[] | null) {
  return pool.anyFirst(sql.type(openIds)`
    SELECT id FROM reservation WHERE state = 'reserved' AND kind = 'studio'
      AND (${ids === null} OR id = ANY(${sql.array(ids ?? [], 'text')}))
    ORDER BY created_at, id LIMIT 5000`);
}

/**
 * Finds open reservations without a running workflow. Reads the reservations again at the end,
 * because jobs may end during the check.
 */
async function checkOwners(
  pool: DatabasePool,
  isOwned: NonNullable<AuditSources['isOwned']>,
): Promise<AuditCheck> {
  const open = await listOpenReservations(pool, null);
  const missing: string[] = [];
  for (const id of open) {
    // Workflows are read one at a time, so that an audit puts little load on Temporal.
    if (!(await isOwned(id))) missing.push(id);
  }
  const subjects = missing.length > 0 ? await listOpenReservations(pool, missing) : [];
  return { name: unownedCheck, examined: open.length, subjects: [...subjects] };
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
  for (let after = ''; ;) {
    // Results are read in pages, to limit memory use.
    const page = await pool.any(sql.type(artifactRow)`
      SELECT f.storage_key, f.size_bytes, f.sha256 FROM artifact f JOIN job j ON j.id = f.job_id
      WHERE j.status = 'completed' AND f.deleted_at IS NULL AND f.storage_key > ${after}
      ORDER BY f.storage_key LIMIT 500`);
    for (const row of page) {
      if (!(await isIntact(storage, row))) subjects.push(row.storage_key);
    }
    examined += page.length;
    const last = page.at(-1);
    if (!last) return { name: unreadableCheck, examined, subjects };
    after = last.storage_key;
  }
}

async function isIntact(
  storage: Pick<Storage, 'open'>,
  row: z.infer<typeof artifactRow>,
): Promise<boolean> {
  const object = await storage.open(row.storage_key);
  if (!object) return false;
  const { sizeBytes, sha256 } = await digestStream(object.stream);
  return sizeBytes === row.size_bytes && sha256 === row.sha256;
}

/** Matches the job id and the call index in a notification URL or an idempotency key. */
const callPattern = /(job_[0-9a-f]{32})[:/](\d{1,3})(?:\/|$)/;

/** Checks that providers accepted each call at most once. */
function checkSubmissions(submissions: readonly LoggedSubmission[]): AuditCheck {
  const countByCall = new Map<string, number>();
  for (const { webhookUrl, idempotencyKey } of submissions) {
    const [, jobId, call] = callPattern.exec(webhookUrl ?? idempotencyKey ?? '') ?? [];
    if (jobId === undefined) continue;
    const callId = `${jobId}:${call}`;
    countByCall.set(callId, (countByCall.get(callId) ?? 0) + 1);
  }
  const subjects = [...countByCall].filter(([, count]) => count > 1).map(([callId]) => callId);
  return { name: repeatedCheck, examined: countByCall.size, subjects };
}
