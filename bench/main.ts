/**
 * `npm run bench`: measures Studio jobs beside a bare Temporal workflow, a no-op workflow, DBOS and the
 * provider alone, on servers of its own (docs/performance.md). Nothing it started outlives it.
 */
import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { compare } from './comparison.ts';
import { profileJobs, type JobProfile } from './job-profile.ts';
import { measure } from './measurement.ts';
import { readOptions, type BenchOptions } from './options.ts';
import { openScenarios, type OpenScenarios } from './scenarios.ts';
import { startServers, type Servers } from './servers.ts';
import { runAndStop, type Stops } from './stops.ts';
import { renderCells, renderMemory, renderProfiles } from './table.ts';

const report = (line: string): void => console.error(line);

async function run(options: BenchOptions, started: Stops): Promise<void> {
  const directory = makeTemporaryDirectory('bench');
  started.push(() => rm(directory, { recursive: true, force: true }));
  report('starting Postgres, Temporal and the sandbox');
  const servers: Servers = await startServers({ ...options, directory });
  started.push(servers.stop);
  report('starting the gateway and the bare worker');
  const open: OpenScenarios = await openScenarios(servers, { ...options, report });
  started.push(open.stop);
  const cells = compare(await measure(open.scenarios, { ...options, report }));
  console.log(`${renderCells(cells)}\n\n${renderMemory(cells)}`);
  let profiles: JobProfile[] = [];
  if (options.profile && open.gateways.size > 0) {
    report('profiling one job');
    profiles = await profileJobs(servers, open.gateways);
  }
  const machine = {
    load: loadavg(),
    cores: availableParallelism(),
    cpu: cpus()[0]?.model ?? 'unknown',
  };
  if (profiles.length > 0) console.log(`\n${renderProfiles(profiles)}`);
  if (options.jsonPath !== null) {
    const { jsonPath: _, ...settings } = options;
    const content = { date: new Date().toISOString(), machine, settings, cells, profiles };
    writeFileSync(options.jsonPath, `${JSON.stringify(content, null, 2)}\n`);
  }
  const failed = cells.filter((cell) => cell.failures > 0);
  for (const cell of failed) {
    report(
      `${cell.scenario} at ${cell.concurrency}: ${cell.failures} failed: ${cell.firstFailure}`,
    );
  }
  if (failed.length > 0) process.exitCode = 1;
}

const options = readOptions(process.argv.slice(2));
await runAndStop((started) => run(options, started));
