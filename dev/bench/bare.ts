/**
 * Bare Temporal worker and client in one process. It starts a workflow for each HTTP request, as our API does, and records
 * when the workflow ends. The activities do nothing, so the measured cost is that of Temporal alone.
 */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createLogger } from '../../platform/logger.ts';
import { announceReady, drainOnExit } from '../../process/run-process.ts';
import { installRuntime } from '../../worker/runtime.ts';

const taskQueue = 'bench-bare';
const createdAtMs = new Map<string, number>();
const ended: Record<string, { createdAtMs: number; endedAtMs: number }> = {};

const steps = {
  async reserve(jobId: string): Promise<void> {
    createdAtMs.set(jobId, Date.now());
  },
  /** Returns at once, and sends the provider's signal after `providerMs`. */
  async submit(jobId: string, providerMs: number): Promise<void> {
    const signal = () => workflow.getHandle(jobId).signal('providerNotification');
    setTimeout(() => void signal().catch((error: unknown) => console.error(error)), providerMs);
  },
  async store(): Promise<void> {},
  async charge(jobId: string): Promise<void> {
    ended[jobId] = { createdAtMs: createdAtMs.get(jobId) ?? 0, endedAtMs: Date.now() };
  },
};
/** Activities of the bare workflow. */
export type Steps = typeof steps;

installRuntime(createLogger('bare', 'warn'));
const address = process.env['TEMPORAL_ADDRESS'] ?? '';
const connection = await NativeConnection.connect({ address });
const { workflow } = new Client({ connection });
const worker = await Worker.create({
  connection,
  taskQueue,
  workflowsPath: fileURLToPath(new URL('bare-workflow.ts', import.meta.url)),
  activities: steps,
  maxCachedWorkflows: 2000,
  maxConcurrentWorkflowTaskExecutions: 100,
});
const running = worker.run();

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify(ended));
    return;
  }
  const providerMs = Number(
    new URL(request.url ?? '', 'http://bare').searchParams.get('providerMs'),
  );
  const workflowId = `bench-${randomUUID()}`;
  workflow.start('bare', { workflowId, taskQueue, args: [workflowId, providerMs] }).then(
    () => response.end(workflowId),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});
server.listen(Number(process.env['PORT']), '127.0.0.1', () => announceReady());
drainOnExit(async () => {
  server.closeAllConnections();
  server.close();
  worker.shutdown();
  await running;
}, 10_000);
