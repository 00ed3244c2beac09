/**
 * The audit: every promise about money and results, checked from outside the code that keeps them.
 * Rows are asked of Postgres; owners of Temporal, bytes of the storage and accepted submits of the
 * provider's own log are asked where the caller of the audit can reach them.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import { findViolations, invariantNames, type Finding } from './invariants.ts';
import { digestOf } from '../storage/spool.ts';
import type { Storage } from '../storage/storage.ts';

/** A submit that a provider accepted, by its own log. */
export interface WitnessedSubmit {
  webhookUrl: string | null;
  idempotencyKey: string | null;
}

/** Where to look; what is absent is not looked at, and the report says so. */
export interface AuditSources {
  databaseUrl: string;
  pool: DatabasePool;
  /** Whether a workflow that owns this job runs. */
  isOwned?: (jobId: string) => Promise<boolean>;
  /** Reads the bytes of every result that is paid for: takes as long as reading them takes. */
  storage?: Pick<Storage, 'open'>;
  /** Accepted submits, told by the provider (the sandbox's own log). */
  submits?: () => Promise<readonly WitnessedSubmit[]>;
}

/** One promise and what was found. */
export interface AuditCheck {
  name: string;
  /** How many things were looked at one by one; null where Postgres looked at all rows. */
  examined: number | null;
  /** Ids that the promise does not hold for. */
  subjects: string[];
}

/** What an audit found. */
export interface AuditReport {
  clean: boolean;
  /** RFC 3339. */
  at: string;
  tookMs: number;
  checks: AuditCheck[];
}

const unowned = 'an open reservation has no running workflow';
const unreadable = 'a paid result is not readable with its recorded hash';
const twice = 'a provider accepted one call more than once';

/** Runs every check that the sources allow. @throws what the sources throw when they are away */
export async function runAudit(sources: AuditSources): Promise<AuditReport> {
  const startedAt = performance.now();
  const at = new Date().toISOString();
  const checks = groupByName(await findViolations(sources.databaseUrl));
  if (sources.isOwned) checks.push(await checkOwners(sources.pool, sources.isOwned));
  if (sources.storage) checks.push(await checkResults(sources.pool, sources.storage));
  if (sources.submits) checks.push(checkSubmits(await sources.submits()));
  return {
    clean: checks.every(({ subjects }) => subjects.length === 0),
    at,
    tookMs: Math.round(performance.now() - startedAt),
    checks,
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

const openIds = z.object({ id: z.string() });

function openReservations(pool: DatabasePool, ids: readonly string[] | null) {
  return pool.anyFirst(sql.type(openIds)`
    SELECT id FROM reservation WHERE state = 'reserved' AND kind = 'studio'
      AND (${ids === null} OR id = ANY(${sql.array(ids ?? [], 'text')}))
    ORDER BY created_at, id LIMIT 5000`);
}

/** A job that ends while it is looked at is no finding: what had no owner is looked at again. */
async function checkOwners(
  pool: DatabasePool,
  isOwned: NonNullable<AuditSources['isOwned']>,
): Promise<AuditCheck> {
  const open = await openReservations(pool, null);
  const without: string[] = [];
  for (const id of open) {
    // An audit is never in a hurry.
    if (!(await isOwned(id))) without.push(id);
  }
  const subjects = without.length > 0 ? await openReservations(pool, without) : [];
  return { name: unowned, examined: open.length, subjects: [...subjects] };
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
    // Page after page, so that memory stays flat.
    const page = await pool.any(sql.type(artifactRow)`
      SELECT f.storage_key, f.size_bytes, f.sha256 FROM artifact f JOIN job j ON j.id = f.job_id
      WHERE j.status = 'completed' AND f.storage_key > ${after}
      ORDER BY f.storage_key LIMIT 500`);
    for (const row of page) {
      if (!(await isIntact(storage, row))) subjects.push(row.storage_key);
    }
    examined += page.length;
    const last = page.at(-1);
    if (!last) return { name: unreadable, examined, subjects };
    after = last.storage_key;
  }
}

async function isIntact(
  storage: Pick<Storage, 'open'>,
  row: z.infer<typeof artifactRow>,
): Promise<boolean> {
  const object = await storage.open(row.storage_key);
  if (!object) return false;
  const { sizeBytes, sha256 } = await digestOf(object.stream);
  return sizeBytes === row.size_bytes && sha256 === row.sha256;
}

/** Job and call as they stand in a notification URL or an idempotency key. */
const callName = /(job_[0-9a-f]{32})[:/](\d{1,3})(?:\/|$)/;

/** Nothing is ever sent a second time (design §3.6), so one acceptance per call is the most. */
function checkSubmits(submits: readonly WitnessedSubmit[]): AuditCheck {
  const seen = new Map<string, number>();
  for (const { webhookUrl, idempotencyKey } of submits) {
    const [, jobId, call] = callName.exec(webhookUrl ?? idempotencyKey ?? '') ?? [];
    if (jobId === undefined) continue;
    const name = `${jobId}:${call}`;
    seen.set(name, (seen.get(name) ?? 0) + 1);
  }
  const subjects = [...seen].filter(([, times]) => times > 1).map(([name]) => name);
  return { name: twice, examined: seen.size, subjects };
}
