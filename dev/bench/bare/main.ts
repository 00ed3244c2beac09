/**
 * The bare worker: a process with a worker and a client on one connection. Its client is in it, so that
 * its CPU is what the engine's client and worker cost together, as in our API process.
 */
import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { z } from 'zod';
import { createLogger } from '../../../platform/logger.ts';
import { installRuntime } from '../../../platform/temporal.ts';
import { openJobs } from '../driven.ts';

const { TEMPORAL_ADDRESS: address } = z.object({ TEMPORAL_ADDRESS: z.string() }).parse(process.env);
const taskQueue = 'bench-bare';
const { steps, serve } = openJobs();
installRuntime(createLogger('bare', 'warn'));
const connection = await NativeConnection.connect({ address });
const worker = await Worker.create({
  connection,
  taskQueue,
  workflowsPath: fileURLToPath(new URL('workflows.ts', import.meta.url)),
  activities: { ...steps },
  maxCachedWorkflows: 2000,
  maxConcurrentWorkflowTaskExecutions: 100,
});
const running = worker.run();
const { workflow } = new Client({ connection });

function begin(type: string, requestEagerStart: boolean): (jobId: string) => Promise<unknown> {
  return (workflowId) =>
    workflow.start(type, { workflowId, taskQueue, args: [workflowId], requestEagerStart });
}

serve({
  begin: {
    bare: begin('bare', false),
    // The floor is the least that the engine can do.
    floor: begin('floor', true),
    floor4: begin('floor4', true),
  },
  notify: (jobId) => workflow.getHandle(jobId).signal('providerNotification'),
  async stop() {
    worker.shutdown();
    await running;
  },
});
