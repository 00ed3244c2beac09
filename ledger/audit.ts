/**
 * The audit checks every promise about money and results, by statements that share no code with the
 * ledger. It reads Postgres and, if the caller gives access to them, workflows, stored bytes and
 * the submits in a provider's log.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../platform/database.ts';
import { digestStream } from '../storage/spool.ts';
import type { Storage } from '../storage/storage.ts';
import { findViolations, invariantNames, type Finding } from './invariants.ts';

/** Submit that a provider accepted, according to the provider's log. */
export interface WitnessedSubmit {
  webhookUrl: string | null;
  idempotencyKey: string | null;
}

/** Sources of an audit; the report names the checks of absent sources as not done. */
export interface AuditSources {
  databaseUrl: string;
  pool: DatabasePool;
  /** Returns whether a workflow runs that owns this job. */
  isOwned?: (jobId: string) => Promise<boolean>;
  storage?: Pick<Storage, 'open'>;
  /** Returns the accepted submits in the log of the provider (the sandbox). */
  submits?: () => Promise<readonly WitnessedSubmit[]>;
}

interface AuditCheck {
  name: string;
  /** Number of subjects that were checked one by one; null if one statement checked all rows. */
  examined: number | null;
  subjects: string[];
}

/** Highest number of ids that a report shows for one kind of finding. */
export const subjectsShownMax = 100;

/** Report of an audit. */
export interface AuditReport {
  clean: boolean;
  at: string;
  tookMs: number;
  checks: AuditCheck[];
  /** Micro-credits that chats cost beyond the amounts that balance and key could pay. */
  chatLossMicro: number;
}

const unownedName = 'an open reservation has no running workflow';
const unreadableName = 'a paid result is not readable with its recorded hash';
const repeatedName = 'a provider accepted one call more than once';

const emptyRow = z.object({});

/**
 * Runs every check that the sources allow, and records the number of findings.
 * @throws errors of the sources
 */
export async function runAudit(sources: AuditSources): Promise<AuditReport> {
  const startedAt = performance.now();
  const at = new Date().toISOString();
  const checks = groupByName(await findViolations(sources.databaseUrl));
  if (sources.isOwned) checks.push(await checkOwners(sources.pool, sources.isOwned));
  if (sources.storage) checks.push(await checkResults(sources.pool, sources.storage));
  if (sources.submits) checks.push(checkSubmits(await sources.submits()));
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

/** Finds reservations without a workflow, in two reads, between which jobs may end. */
async function checkOwners(
  pool: DatabasePool,
  isOwned: NonNullable<AuditSources['isOwned']>,
): Promise<AuditCheck> {
  const open = await listOpenReservations(pool, null);
  const without: string[] = [];
  for (const id of open) {
    // The workflows are read one after the other, because an audit must not load Temporal.
    if (!(await isOwned(id))) without.push(id);
  }
  const subjects = without.length > 0 ? await listOpenReservations(pool, without) : [];
  return { name: unownedName, examined: open.length, subjects: [...subjects] };
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
    // The results are read in pages, so that the memory used is bounded.
    const page = await pool.any(sql.type(artifactRow)`
      SELECT f.storage_key, f.size_bytes, f.sha256 FROM artifact f JOIN job j ON j.id = f.job_id
      WHERE j.status = 'completed' AND f.deleted_at IS NULL AND f.storage_key > ${after}
      ORDER BY f.storage_key LIMIT 500`);
    for (const row of page) {
      if (!(await isIntact(storage, row))) subjects.push(row.storage_key);
    }
    examined += page.length;
    const last = page.at(-1);
    if (!last) return { name: unreadableName, examined, subjects };
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

/** Pattern of the job id and the call index in a notification URL or an idempotency key. */
const callName = /(job_[0-9a-f]{32})[:/](\d{1,3})(?:\/|$)/;

/** Checks that providers accepted each call at most once (design §3.6). */
function checkSubmits(submits: readonly WitnessedSubmit[]): AuditCheck {
  const timesByName = new Map<string, number>();
  for (const { webhookUrl, idempotencyKey } of submits) {
    const [, jobId, call] = callName.exec(webhookUrl ?? idempotencyKey ?? '') ?? [];
    if (jobId === undefined) continue;
    const name = `${jobId}:${call}`;
    timesByName.set(name, (timesByName.get(name) ?? 0) + 1);
  }
  const subjects = [...timesByName].filter(([, times]) => times > 1).map(([name]) => name);
  return { name: repeatedName, examined: timesByName.size, subjects };
}
