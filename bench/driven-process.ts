/** Starts a process with a scenario's own worker and client in it, and drives it over IPC. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Load, LoopResult } from './closed-loop.ts';
import type { Servers } from './servers.ts';

/** The running process. */
export interface DrivenProcess {
  pid: number;
  /** Runs a job that the process knows by name in a closed loop. */
  run: (job: string, load: Load) => Promise<LoopResult>;
  stop: () => Promise<void>;
}

interface Program {
  name: string;
  /** Below this folder. */
  script: string;
  /** What it needs beside the servers' addresses. */
  env?: Record<string, string>;
}

/** Starts the process; its worker works when this returns. */
export async function startDriven(servers: Servers, program: Program): Promise<DrivenProcess> {
  const { name, script, env = {} } = program;
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: servers.plan.databaseUrl,
      TEMPORAL_ADDRESS: servers.plan.temporalAddress,
      SANDBOX_URL: servers.plan.sandboxUrl,
      FAL_KEY: servers.secrets.sandboxFalKey,
      PROVIDER_LATENCY_MS: String(servers.latencyMs),
      FILES_DIR: join(servers.directory, name),
      ...env,
    },
  });
  const exited = once(child, 'exit').then(([code]) => {
    throw new Error(`the ${name} process exited with code ${code}`);
  });
  exited.catch(() => {});
  await Promise.race([once(child, 'message'), exited]);
  let lastId = 0;
  return {
    pid: child.pid ?? 0,
    async run(job, load) {
      lastId += 1;
      child.send({ id: lastId, job, ...load });
      const [answer]: { id: number; result: LoopResult }[] = await Promise.race([
        once(child, 'message'),
        exited,
      ]);
      if (answer?.id !== lastId) throw new Error(`the ${name} process answered something else`);
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
