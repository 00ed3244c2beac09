/**
 * The bare worker: a process with a worker and a client on one connection, driven over IPC. Its client
 * is in it, so that its CPU is what the engine's client and worker cost together, as in our API process.
 */
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { z } from 'zod';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { installRuntime } from '../../platform/temporal.ts';
import { runClosedLoop } from '../closed-loop.ts';
import { createBareActivities, createBareTable } from './activities.ts';
import { bareTaskQueue } from './contract.ts';

const environment = z
  .object({
    DATABASE_URL: z.string(),
    TEMPORAL_ADDRESS: z.string(),
    SANDBOX_URL: z.string(),
    FAL_KEY: z.string(),
    PROVIDER_LATENCY_MS: z.coerce.number(),
    FILES_DIR: z.string(),
  })
  .parse(process.env);

const command = z.object({
  id: z.number(),
  workflow: z.enum(['bareImage', 'noop']),
  concurrency: z.number(),
  seconds: z.number(),
});

const logger = createLogger('bare', 'warn');
installRuntime(logger);
await mkdir(environment.FILES_DIR, { recursive: true });
const pool = await openDatabase({ url: environment.DATABASE_URL, poolMax: 12, logger });
await createBareTable(pool);
const connection = await NativeConnection.connect({ address: environment.TEMPORAL_ADDRESS });
const worker = await Worker.create({
  connection,
  taskQueue: bareTaskQueue,
  workflowsPath: fileURLToPath(new URL('workflows.ts', import.meta.url)),
  activities: createBareActivities({
    pool,
    sandboxUrl: environment.SANDBOX_URL,
    falKey: environment.FAL_KEY,
    latencyMs: environment.PROVIDER_LATENCY_MS,
    directory: environment.FILES_DIR,
  }),
  maxCachedWorkflows: 2000,
  maxConcurrentWorkflowTaskExecutions: 100,
});
const running = worker.run();
const client = new Client({ connection });

/** The no-op starts eagerly: the floor is the least that the engine can do. */
async function execute(workflow: 'bareImage' | 'noop'): Promise<void> {
  const workflowId = `${workflow}-${randomUUID()}`;
  const handle = await client.workflow.start(workflow, {
    workflowId,
    taskQueue: bareTaskQueue,
    args: workflow === 'noop' ? [] : [{ jobId: workflowId }],
    requestEagerStart: workflow === 'noop',
  });
  await handle.result();
}

process.on('message', (message) => {
  const { id, workflow, ...load } = command.parse(message);
  void runClosedLoop(() => execute(workflow), load).then((result) =>
    process.send?.({ id, result }),
  );
});

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  worker.shutdown();
  await running;
  await pool.end();
  process.exit(0);
}
process.on('SIGTERM', () => void stop());
process.on('disconnect', () => void stop());
process.send?.({ type: 'ready' });
