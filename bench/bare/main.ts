/**
 * The bare worker: a process with a worker and a client on one connection. Its client is in it, so that
 * its CPU is what the engine's client and worker cost together, as in our API process.
 */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { installRuntime } from '../../platform/temporal.ts';
import { openSteps, serveJobs } from '../driven.ts';
import { bareTaskQueue } from './contract.ts';

const { pool, logger, activities, temporalAddress } = await openSteps('bare');
installRuntime(logger);
const connection = await NativeConnection.connect({ address: temporalAddress });
const worker = await Worker.create({
  connection,
  taskQueue: bareTaskQueue,
  workflowsPath: fileURLToPath(new URL('workflows.ts', import.meta.url)),
  activities,
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

serveJobs({ bare: () => execute('bareImage'), noop: () => execute('noop') }, async () => {
  worker.shutdown();
  await running;
  await pool.end();
});
