/**
 * `npm run dev -- check-cluster`: runs the services of docker-compose.yml as processes on this machine, and disturbs them
 * under load: a rolling upgrade, kills of an API and a worker, restarts of Temporal and Postgres. At the end it runs the
 * audit and prints a table; the exit status is 1 if a job was lost or charged twice (docs/faults.md).
 */
import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Command } from 'commander';
import type { OpenLoad } from '../bench/load.ts';
import { number } from '../bench/options.ts';
import { runAndStop, type Stops } from '../bench/stops.ts';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { startCluster, type Build, type Cluster } from './cluster.ts';
import { project } from './compose.ts';
import { startMeter } from './costs.ts';
import { runLoad, type LoadOutcome } from './load.ts';
import { findTemporalPrograms } from './temporal-server.ts';

interface Options extends OpenLoad {
  before?: string;
  calm?: true;
  keep?: true;
}
const options = new Command('check:cluster')
  .description('Runs the processes of docker-compose.yml natively, and breaks them under load.')
  .option('--rate <n>', 'jobs requested per second', number, 2)
  .option('--seconds <n>', 'duration, over which the faults are spread', number, 240)
  .option('--provider-seconds <n>', 'seconds that the provider takes for a job', number, 4)
  .option(
    '--before <folder>',
    'the checkout of the old build (default: this one, under another id)',
  )
  .option('--calm', 'break nothing, and print what a job costs')
  .option('--keep', 'keep the logs')
  .parse()
  .opts<Options>();
const load: OpenLoad = options;
const before: Build = {
  id: 'before',
  checkout: options.before === undefined ? null : resolve(options.before),
};
const after: Build = { id: 'after', checkout: null };

let beganAt = performance.now();
const report = (line: string): void => {
  const seconds = ((performance.now() - beganAt) / 1000).toFixed(0);
  process.stdout.write(`${seconds.padStart(4)} s  ${line}\n`);
};

/**
 * Upgrades as docs/deploys.md describes: starts the new workers, routes new jobs to them, replaces the APIs, and stops the
 * old workers.
 */
async function upgrade(cluster: Cluster): Promise<void> {
  report('upgrade: workers of the new build start beside the old');
  await cluster.startGateway('worker-3', after);
  await cluster.startGateway('worker-4', after);
  await cluster.setCurrent(after);
  report('upgrade: the new build is current; the APIs are replaced in turn');
  for (const api of ['api-1', 'api-2']) {
    // Replaced one after the other, because the load balancer always needs a running API.
    await cluster.stop(api);
    await cluster.startGateway(api, after);
  }
  report('upgrade: the old workers go');
  await Promise.all(['worker-1', 'worker-2'].map(cluster.stop));
  report('upgrade: done');
}

async function killAndRestart(cluster: Cluster, name: string): Promise<void> {
  report(`${name}: killed (SIGKILL)`);
  await cluster.kill(name);
  await sleep(3000);
  await cluster.startGateway(name, after);
  report(`${name}: runs again`);
}

async function restart(cluster: Cluster, name: 'postgres' | 'temporal'): Promise<void> {
  report(`${name}: stopped`);
  await cluster.stop(name);
  await sleep(3000);
  await cluster.startServer(name);
  report(`${name}: runs again`);
}

/** Disturbances, each with its time as a share of the load's duration. */
const events: readonly [number, (cluster: Cluster) => Promise<void>][] = [
  [0.05, upgrade],
  [0.5, (cluster) => killAndRestart(cluster, 'api-1')],
  [0.6, (cluster) => killAndRestart(cluster, 'worker-3')],
  [0.7, (cluster) => restart(cluster, 'temporal')],
  [0.85, (cluster) => restart(cluster, 'postgres')],
];

async function disturb(cluster: Cluster): Promise<void> {
  for (const [share, event] of events) {
    const dueInMs = beganAt + share * load.seconds * 1000 - performance.now();
    if (dueInMs > 0) await sleep(dueInMs);
    // Run one at a time, even on a slow machine.
    await event(cluster);
  }
}

function printOutcome(outcome: LoadOutcome): void {
  const { requested, accepted, charged, released, lost, twice, retried } = outcome;
  const cells = {
    requested,
    'given up': outcome.failures,
    accepted,
    charged,
    released,
    lost: lost.length,
    'charged twice': twice.length,
    'p50 s': outcome.middleSeconds.toFixed(1),
    'slowest s': outcome.slowestSeconds.toFixed(1),
  };
  const again = Object.entries(retried).map(([status, times]) => `${times} × ${status}`);
  const lines = [
    '',
    `| ${Object.keys(cells).join(' | ')} |`,
    `|${' --: |'.repeat(Object.keys(cells).length)}`,
    `| ${Object.values(cells).join(' | ')} |`,
    `retried after: ${again.join(', ') || 'nothing'} (0 = the connection broke)`,
    ...(outcome.firstFailure === null ? [] : [`given up first: ${outcome.firstFailure}`]),
    ...lost.map((tag) => `lost: ${tag}`),
    ...twice.map((tag) => `charged twice: ${tag}`),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

/**
 * Runs `npm run audit` on the cluster.
 * @returns true if it found no violation
 */
async function audit({ env, sandboxUrl }: Cluster): Promise<boolean> {
  const script = join(project, 'dev', 'stack', 'audit.ts');
  const args = [script, '--results', '--submits', sandboxUrl];
  const printed = await promisify(execFile)(process.execPath, args, {
    env: { ...env, WORKER_BUILD_ID: after.id },
  }).then(
    ({ stdout }) => ({ stdout, clean: true }),
    ({ stdout, stderr }: { stdout: string; stderr: string }) => ({
      stdout: `${stdout}${stderr}`,
      clean: false,
    }),
  );
  process.stdout.write(`\n${printed.stdout}`);
  return printed.clean;
}

async function run(started: Stops): Promise<void> {
  const programs = await findTemporalPrograms(report);
  const directory = makeTemporaryDirectory('cluster');
  if (options.keep) report(`logs: ${join(directory, 'logs')}`);
  else started.push(() => rm(directory, { recursive: true, force: true }));
  const providerMs = load.providerSeconds * 1000;
  report('starting storage, Postgres, Temporal on Postgres, provider, proxy');
  const cluster = await startCluster({ directory, programs, providerMs, started });
  // Temporal only knows a deployment after its workers have polled, and they receive no jobs until their build is
  // current.
  for (const name of ['worker-1', 'worker-2']) await cluster.startGateway(name, before);
  await cluster.setCurrent(before);
  for (const name of ['api-1', 'api-2']) await cluster.startGateway(name, before);
  const meter = options.calm ? await startMeter(cluster) : null;
  beganAt = performance.now();
  report(`${load.rate} jobs a second for ${load.seconds} s, through ${cluster.url}`);
  const broken = options.calm ? null : disturb(cluster);
  const [outcome] = await Promise.all([runLoad(cluster, load), broken]);
  const costs = (await meter?.read(outcome.charged)) ?? [];
  for (const line of costs) process.stdout.write(`${line}\n`);
  const isClean = await audit(cluster);
  printOutcome(outcome);
  if (!isClean || outcome.lost.length + outcome.twice.length > 0) process.exitCode = 1;
}

await runAndStop(run).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
