/**
 * `npm run bench:memory`: resident memory of every process over many jobs. Flat means: after the warm-up
 * the line through the samples does not rise (docs/performance.md).
 */
import { rm } from 'node:fs/promises';
import { Command } from 'commander';
import { makeTemporaryDirectory } from '../../stack/temporary-directory.ts';
import { runClosedLoop } from '../closed-loop.ts';
import { startGateway } from '../gateway.ts';
import { assignment } from '../options.ts';
import { readUsage } from '../process-usage.ts';
import { startServers } from '../servers.ts';
import { runAndStop, type Stops } from '../stops.ts';
import { renderTable } from '../table.ts';

interface Options {
  jobs: number;
  concurrency: number;
  apis: number;
  workers: number;
  env: Record<string, string>;
}

interface Sample {
  jobs: number;
  residentBytes: Record<string, number>;
}

const options = new Command('bench:memory')
  .option('--jobs <n>', 'how many', Number, 10_000)
  .option('--concurrency <n>', 'callers at once', Number, 32)
  .option('--apis <n>', 'API processes', Number, 1)
  .option('--workers <n>', 'worker processes beside the APIs’ own', Number, 1)
  .option('--env <NAME=value>', 'more environment for API and worker', assignment, {})
  .parse()
  .opts<Options>();

const sampleSeconds = 5;
/** Until then caches fill and code is compiled. */
const warmUpShare = 0.4;
const megabyte = 1024 * 1024;

async function run(stops: Stops): Promise<Sample[]> {
  const directory = makeTemporaryDirectory('bench-memory');
  stops.push(() => rm(directory, { recursive: true, force: true }));
  const servers = await startServers({ directory, latencyMs: 50, temporalInMemory: false });
  stops.push(servers.stop);
  const { apis, workers, env } = options;
  const variant = { name: 'memory', checkout: null, apis, workers, env };
  const gateway = await startGateway(servers, variant);
  stops.push(gateway.stop);
  const samples: Sample[] = [];
  for (let jobs = 0; jobs < options.jobs;) {
    const load = { concurrency: options.concurrency, seconds: sampleSeconds };
    const { latenciesMs, failures, firstFailure } = await runClosedLoop(gateway.sync, load);
    // Memory is measured all the same, and a job without an answer may be where it went.
    if (firstFailure !== null) {
      console.error(`${failures} failed: ${firstFailure}`);
      process.exitCode = 1;
    }
    jobs += latenciesMs.length + failures;
    const usage = Object.entries(readUsage({ ...gateway.pids, ...servers.pids }));
    const sizes = usage.map(([name, { residentBytes }]): [string, number] => [name, residentBytes]);
    samples.push({ jobs, residentBytes: Object.fromEntries(sizes) });
    console.error(`${jobs} jobs: ${sizes.map(([name, size]) => `${name} ${mb(size)}`).join(', ')}`);
  }
  return samples;
}

/** The rise of the least-squares line, bytes per job. */
function slopeOf(points: readonly { x: number; y: number }[]): number {
  const meanX = points.reduce((sum, { x }) => sum + x, 0) / points.length;
  const meanY = points.reduce((sum, { y }) => sum + y, 0) / points.length;
  const spread = points.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0);
  return points.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0) / (spread || 1);
}

function mb(bytes: number): string {
  return (bytes / megabyte).toFixed(0);
}

function render(samples: readonly Sample[]): string {
  const warm = samples.filter(({ jobs }) => jobs >= options.jobs * warmUpShare);
  const names = Object.keys(samples[0]?.residentBytes ?? {});
  const rows = names.map((name) => {
    const points = warm.map(({ jobs, residentBytes }) => ({
      x: jobs,
      y: residentBytes[name] ?? 0,
    }));
    const sizes = points.map(({ y }) => y);
    const edges = [sizes[0] ?? 0, sizes.at(-1) ?? 0, Math.max(...sizes)].map(mb);
    return [name, ...edges, (slopeOf(points) / 1024).toFixed(2)];
  });
  const head = ['process', 'MB when warm', 'MB at the end', 'MB at most', 'KB more per job'];
  return renderTable([head, ...rows]);
}

await runAndStop(async (stops) => console.log(render(await run(stops))));
