/** Audits, sums up days and archives in the background of a worker. */
import { claimDailyAudit, runAudit, type AuditSources } from '../ledger/audit.ts';
import type { AuditOptions } from '../ledger/invariants.ts';
import { readLastAudits } from '../ledger/ledger-reads.ts';
import type { Logger } from '../platform/logger.ts';
import type { StateGauges } from '../platform/metrics.ts';
import { repeat, runAlone } from '../platform/background.ts';
import { archive, type ArchiveSources } from '../ledger/archive.ts';
import type { createUsageSums } from '../ledger/usage-sums.ts';

interface AuditorOptions {
  sources: AuditSources;
  logger: Logger;
  /** Interval between audits of the changes, in milliseconds. If it is 0, no audits run. */
  intervalMs: number;
  state: StateGauges;
}

/** Maximum number of violations in a log line. */
const loggedFindingsMax = 20;
/**
 * Maximum delay of the first audit, in milliseconds. It is short, so that violations that exist
 * when the process starts are found soon.
 */
const firstAuditDelayMs = 5000;
/** Share of one connection's time that the daily audit of all rows uses, so that requests stay fast. */
const dailyShare = 0.5;

/** Starts the audits. Returns a function that stops them. */
export function startAuditor(options: AuditorOptions): () => Promise<void> {
  const { intervalMs, sources } = options;
  if (intervalMs === 0) return () => Promise.resolve();
  const firstAfterMs = Math.min(firstAuditDelayMs, intervalMs);
  const run = async (signal: AbortSignal): Promise<void> => {
    try {
      await audit(options, { scope: 'changes', signal });
      if (await claimDailyAudit(sources.pool)) {
        await audit(options, { scope: 'all', share: dailyShare, signal });
      }
    } catch (error) {
      if (!signal.aborted) options.logger.warn({ error }, 'ledger.not_audited');
    }
  };
  return repeat(run, { intervalMs, firstAfterMs });
}

async function audit(
  { sources, logger, state }: AuditorOptions,
  options: AuditOptions,
): Promise<void> {
  const { checks } = await runAudit(sources, options);
  // The results of all workers are shown, because only one of them runs the daily audit.
  for (const { scope, findings, finishedAtMs } of await readLastAudits(sources.pool)) {
    state.auditRows.set({ scope }, findings);
    state.auditedAt.set({ scope }, finishedAtMs / 1000);
  }
  const findings = checks.flatMap(({ name, subjects }) =>
    subjects.map((subject) => ({ finding: name, subject })),
  );
  if (findings.length === 0) return;
  logger.error(
    {
      scope: options.scope,
      rows: findings.length,
      findings: findings.slice(0, loggedFindingsMax),
    },
    'ledger.broken',
  );
}

interface ArchiverOptions {
  sources: ArchiveSources;
  logger: Logger;
  /** Number of whole months that stay in the database; if it is 0, nothing is archived. */
  keptMonths: number;
  intervalMs?: number;
}

const hourMs = 3_600_000;
const minuteMs = 60_000;

interface PassOptions {
  /** Name of the lock of the pass. */
  name: string;
  databaseUrl: string;
  logger: Logger;
  /** Log event of a failed pass. */
  failure: string;
  intervalMs: number;
  firstAfterMs: number;
}

/** Repeats a pass that one worker runs at a time. Returns a function that stops it. */
function startPass(
  { name, databaseUrl, logger, failure, ...times }: PassOptions,
  pass: (signal: AbortSignal) => Promise<void>,
): () => Promise<void> {
  const run = async (signal: AbortSignal): Promise<void> => {
    try {
      await runAlone({ databaseUrl, name, signal }, pass);
    } catch (error) {
      if (!signal.aborted) logger.warn({ error }, failure);
    }
  };
  return repeat(run, times);
}

/** Starts the archiver. Returns a function that stops it. */
export function startArchiver(options: ArchiverOptions): () => Promise<void> {
  const { sources, logger, keptMonths, intervalMs = hourMs } = options;
  if (keptMonths === 0) return () => Promise.resolve();
  const { databaseUrl } = sources;
  const firstAfterMs = Math.min(intervalMs, minuteMs);
  const failure = 'ledger.not_archived';
  const pass = { name: 'archive', databaseUrl, logger, failure, intervalMs, firstAfterMs };
  return startPass(pass, async (signal) => {
    const now = new Date();
    const beforeMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - keptMonths, 1);
    const { segments, reservations } = await archive(sources, { beforeMs, signal });
    if (segments > 0) logger.info({ segments, reservations }, 'ledger.archived');
  });
}

interface DayCloserOptions {
  databaseUrl: string;
  usageSums: Pick<ReturnType<typeof createUsageSums>, 'closeDays'>;
  logger: Logger;
  intervalMs?: number;
}

/** Starts the pass that sums up days that are over. Returns a function that stops it. */
export function startDayCloser(options: DayCloserOptions): () => Promise<void> {
  const { usageSums, intervalMs = minuteMs, ...others } = options;
  const failure = 'usage.days_not_closed';
  const pass = { ...others, name: 'close days', failure, intervalMs, firstAfterMs: 0 };
  return startPass(pass, async (signal) => {
    await usageSums.closeDays(signal);
  });
}
