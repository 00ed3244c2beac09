/** Audits again and again: what an audit finds is a broken promise, and an alarm. */
import { runAudit, type AuditSources } from '../activities/ledger/audit.ts';
import type { Logger } from '../platform/logger.ts';
import type { StateMetrics } from '../platform/metrics.ts';
import { repeat } from './repetition.ts';

interface AuditorOptions {
  sources: AuditSources;
  logger: Logger;
  /** 0 = never. */
  intervalMs: number;
  state: StateMetrics;
}

/** A log line names no more findings than this. */
const toldMax = 20;
/** The first audit comes soon: what is wrong at the start is worth knowing. */
const soonMs = 5000;

/** Audits until stopped; returns what stops it. */
export function startAuditor(options: AuditorOptions): () => Promise<void> {
  const { intervalMs } = options;
  if (intervalMs === 0) return () => Promise.resolve();
  const firstAfterMs = Math.min(soonMs, intervalMs);
  return repeat(() => audit(options), { intervalMs, firstAfterMs });
}

async function audit({ sources, logger, state }: AuditorOptions): Promise<void> {
  try {
    const { checks } = await runAudit(sources);
    const findings = checks.flatMap(({ name, subjects }) =>
      subjects.map((subject) => ({ finding: name, subject })),
    );
    state.auditRows.set(findings.length);
    state.auditedAt.setToCurrentTime();
    if (findings.length === 0) return;
    logger.error({ rows: findings.length, findings: findings.slice(0, toldMax) }, 'ledger.broken');
  } catch (error) {
    logger.warn({ error }, 'ledger.not_audited');
  }
}
