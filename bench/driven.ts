/** The driven process's side: what it is told, and its jobs on demand. */
import { mkdir } from 'node:fs/promises';
import { z } from 'zod';
import { openDatabase, type DatabasePool } from '../platform/database.ts';
import { createLogger, type Logger } from '../platform/logger.ts';
import { createBareActivities, createBareTable, type BareActivities } from './bare/activities.ts';
import { runClosedLoop } from './closed-loop.ts';

/** The steps of an image job, and what they work with. */
export interface Steps {
  databaseUrl: string;
  temporalAddress: string;
  pool: DatabasePool;
  logger: Logger;
  activities: BareActivities;
}

const environment = z.object({
  DATABASE_URL: z.string(),
  TEMPORAL_ADDRESS: z.string(),
  SANDBOX_URL: z.string(),
  FAL_KEY: z.string(),
  PROVIDER_LATENCY_MS: z.coerce.number(),
  FILES_DIR: z.string(),
});

/** Opens the steps that bare Temporal and its peers share, from this process's environment. */
export async function openSteps(name: string): Promise<Steps> {
  const told = environment.parse(process.env);
  const logger = createLogger(name, 'warn');
  await mkdir(told.FILES_DIR, { recursive: true });
  const pool = await openDatabase({ url: told.DATABASE_URL, poolMax: 12, logger });
  await createBareTable(pool);
  const activities = createBareActivities({
    pool,
    sandboxUrl: told.SANDBOX_URL,
    falKey: told.FAL_KEY,
    latencyMs: told.PROVIDER_LATENCY_MS,
    directory: told.FILES_DIR,
  });
  return {
    databaseUrl: told.DATABASE_URL,
    temporalAddress: told.TEMPORAL_ADDRESS,
    pool,
    logger,
    activities,
  };
}

const command = z.object({
  id: z.number(),
  job: z.string(),
  concurrency: z.number(),
  seconds: z.number(),
});

/** Runs the jobs that the parent asks for, until it says or drops dead; says `ready` first. */
export function serveJobs(
  jobs: Record<string, () => Promise<void>>,
  stop: () => Promise<void>,
): void {
  process.on('message', (message) => {
    const { id, job, ...load } = command.parse(message);
    const run = jobs[job];
    if (!run) throw new Error(`there is no job ${job}`);
    void runClosedLoop(run, load).then((result) => process.send?.({ id, result }));
  });
  let stopping = false;
  const end = async (): Promise<void> => {
    if (stopping) return;
    stopping = true;
    await stop();
    process.exit(0);
  };
  process.on('SIGTERM', () => void end());
  process.on('disconnect', () => void end());
  process.send?.({ type: 'ready' });
}
