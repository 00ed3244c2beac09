/** Archives old ledger entries, jobs and chats repeatedly in a worker process. */
import { archive, type ArchiveSources } from '../ledger/archive.ts';
import type { Logger } from '../platform/logger.ts';
import { repeat } from '../platform/background.ts';

interface ArchiverOptions {
  sources: ArchiveSources;
  logger: Logger;
  /** Number of whole months that stay in the database; if it is 0, nothing is archived. */
  keptMonths: number;
  intervalMs?: number;
}

const hourMs = 3_600_000;

/** Starts the archiver. Returns a function that stops it. Several workers may archive at the same time. */
export function startArchiver(options: ArchiverOptions): () => Promise<void> {
  const { sources, logger, keptMonths, intervalMs = hourMs } = options;
  if (keptMonths === 0) return () => Promise.resolve();
  const run = async (signal: AbortSignal): Promise<void> => {
    const now = new Date();
    const beforeMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - keptMonths, 1);
    try {
      const { segments, reservations } = await archive(sources, { beforeMs, signal });
      if (segments > 0) logger.info({ segments, reservations }, 'ledger.archived');
    } catch (error) {
      if (!signal.aborted) logger.warn({ error }, 'ledger.not_archived');
    }
  };
  return repeat(run, { intervalMs, firstAfterMs: Math.min(intervalMs, 60_000) });
}
