/** Starts and drives the bare worker process. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Load, LoopResult } from '../closed-loop.ts';
import type { Servers } from '../servers.ts';

/** The running process. */
export interface BareProcess {
  pid: number;
  run: (workflow: 'bareImage' | 'noop', load: Load) => Promise<LoopResult>;
  stop: () => Promise<void>;
}

/** Starts the process; its worker polls when this returns. */
export async function startBareProcess(servers: Servers): Promise<BareProcess> {
  const child = fork(fileURLToPath(new URL('main.ts', import.meta.url)), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: servers.plan.databaseUrl,
      TEMPORAL_ADDRESS: servers.plan.temporalAddress,
      SANDBOX_URL: servers.plan.sandboxUrl,
      FAL_KEY: servers.secrets.sandboxFalKey,
      PROVIDER_LATENCY_MS: String(servers.latencyMs),
      FILES_DIR: join(servers.directory, 'bare'),
    },
  });
  const exited = once(child, 'exit').then(([code]) => {
    throw new Error(`the bare worker exited with code ${code}`);
  });
  exited.catch(() => {});
  await Promise.race([once(child, 'message'), exited]);
  let lastId = 0;
  return {
    pid: child.pid ?? 0,
    async run(workflow, load) {
      lastId += 1;
      child.send({ id: lastId, workflow, ...load });
      const [answer]: { id: number; result: LoopResult }[] = await Promise.race([
        once(child, 'message'),
        exited,
      ]);
      if (answer?.id !== lastId) throw new Error('the bare worker answered something else');
      return answer.result;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
    },
  };
}
