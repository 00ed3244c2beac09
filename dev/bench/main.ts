/**
 * `npm run bench`: measures asynchronous Studio jobs beside a bare Temporal workflow, the engine's floor
 * and DBOS, on servers of its own (docs/performance.md). Nothing it started outlives it.
 */
import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { chooseColumns, type Column } from './columns.ts';
import {
  measure,
  measureSteps,
  type Cell,
  type MeasurePlan,
  heldRate,
  isHeld,
  nextRate,
} from './measurement.ts';
import { readOptions, type BenchOptions } from './options.ts';
import { startServers } from './servers.ts';
import { runAndStop, type Stops } from './stops.ts';
import { renderCells, renderProcesses } from './table.ts';

const report = (line: string): void => console.error(line);

async function run(options: BenchOptions, started: Stops): Promise<void> {
  const directory = makeTemporaryDirectory('bench');
  started.push(() => rm(directory, { recursive: true, force: true }));
  report('starting Postgres, Temporal and the sandbox');
  const latencyMs = options.providerSeconds * 1000;
  const servers = await startServers({ directory, latencyMs, temporalInMemory: false });
  started.push(servers.stop);
  const columns = chooseColumns(servers, { ...options, report });
  const plan = { ...options, started, report };
  const loadBefore = loadavg();
  const { cells, heldRates } = options.saturate
    ? await saturate(columns, plan)
    : { cells: await measure(columns, plan), heldRates: {} };
  console.log(`${renderCells(cells)}\n\n${renderProcesses(cells)}`);
  for (const [name, rate] of Object.entries(heldRates)) console.log(`${name} holds ${rate}/s`);
  if (options.jsonPath !== null) {
    const { jsonPath, ...settings } = options;
    const cpu = cpus()[0]?.model ?? 'unknown';
    const machine = { loadBefore, cores: availableParallelism(), cpu };
    const content = { date: new Date().toISOString(), machine, settings, cells, heldRates };
    writeFileSync(jsonPath, `${JSON.stringify(content, null, 2)}\n`);
  }
  // Above what a column holds, jobs may well be refused.
  if (!options.saturate && cells.some(({ refused, lost }) => refused + lost > 0)) {
    process.exitCode = 1;
  }
}

interface Saturation {
  cells: Cell[];
  /** Column → the highest rate it held, jobs per second. */
  heldRates: Record<string, number>;
}

async function saturate(columns: readonly Column[], plan: MeasurePlan): Promise<Saturation> {
  const found: Saturation = { cells: [], heldRates: {} };
  for (const column of columns) {
    const tried: { rate: number; held: boolean }[] = [];
    const cells = await measureSteps(column, plan, (last) => {
      if (last) tried.push({ rate: last.rate, held: isHeld(last) });
      if (last) report(`${column.name} ${isHeld(last) ? 'holds' : 'does not hold'} ${last.rate}/s`);
      return nextRate(plan.rates[0] ?? 1, tried);
    });
    found.cells.push(...cells);
    found.heldRates[column.name] = heldRate(tried);
  }
  return found;
}

const options = readOptions(process.argv.slice(2));
await runAndStop((started) => run(options, started));
