/** Audits credits and results repeatedly in a worker process. */
import { runAudit, type AuditSources } from '../ledger/audit.ts';
import type { Logger } from '../platform/logger.ts';
import type { StateGauges } from '../platform/metrics.ts';
import { repeat } from './repeat.ts';

interface AuditorOptions {
  sources: AuditSources;
  logger: Logger;
  /** Interval between audits, in milliseconds. If it is 0, no audits run. */
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

/** Starts the audits. Returns a function that stops them. */
export function startAuditor(options: AuditorOptions): () => Promise<void> {
  const { intervalMs } = options;
  if (intervalMs === 0) {
    // Without a value, the alert on its age stays silent.
    options.state.auditedAt.remove();
    return () => Promise.resolve();
  }
  const firstAfterMs = Math.min(firstAuditDelayMs, intervalMs);
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
    logger.error(
      { rows: findings.length, findings: findings.slice(0, loggedFindingsMax) },
      'ledger.broken',
    );
  } catch (error) {
    logger.warn({ error }, 'ledger.not_audited');
  }
}
