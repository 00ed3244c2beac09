/** Starts a process with another engine's worker and client in it, and drives it over IPC. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { LoadResult, OpenLoad } from './open-loop.ts';
import type { Servers } from './servers.ts';

/** The running process. */
export interface DrivenProcess {
  pid: number;
  /** Runs a load of jobs, written in a way that the process knows by name. */
  run: (way: string, load: OpenLoad) => Promise<LoadResult>;
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
      ...env,
    },
  });
  const exited = once(child, 'exit').then(([code]) => {
    throw new Error(`the ${name} process exited with code ${code}`);
  });
  exited.catch(() => {});
  await Promise.race([once(child, 'message'), exited]);
  return {
    pid: child.pid ?? 0,
    async run(way, load) {
      child.send({ way, ...load });
      const [result]: LoadResult[] = await Promise.race([once(child, 'message'), exited]);
      if (!result) throw new Error(`the ${name} process answered nothing`);
      return result;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
    },
  };
}
