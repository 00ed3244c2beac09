/** Measures several ways in alternating rounds, so that noise affects all of them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from './load.ts';
import { readUsage, type Usage } from './process-usage.ts';
import type { Stops } from './stops.ts';

/** Server or engine that is measured. */
export interface Way<Load> {
  name: string;
  /** Starts its processes for one round. */
  open: () => Promise<OpenWay<Load>>;
}

/** Way whose processes run. */
export interface OpenWay<Load> {
  /** Its processes, without provider and load generator. */
  pids: Record<string, number>;
  /** Runs a load, and returns when its jobs have ended. */
  run: (load: Load) => Promise<LoadResult>;
  stop: () => Promise<void>;
}

/** Result of a load. */
export interface LoadResult {
  /** Times of the jobs that succeeded in milliseconds, by name; the lists have the same length. */
  timesMs: Record<string, number[]>;
  /** Jobs that were not accepted, or failed. */
  failures: number;
  /** Message of the first failure. */
  firstFailure: string | null;
}

/** Ways and loads of a benchmark. */
export interface Benchmark<Load extends { name: string }> {
  ways: readonly Way<Load>[];
  /** Loads of each way in each round. */
  loads: readonly Load[];
  /** Load before them, which is not measured. */
  warmUp: Load;
  /** Name of the way that the others are compared with. */
  baseline: string;
}

/** Result of one way under one load over all rounds. */
export interface Cell {
  way: string;
  load: string;
  /** Jobs that succeeded. */
  jobs: number;
  failures: number;
  firstFailure: string | null;
  jobsPerSecond: number;
  /** CPU time of all processes but provider and load generator. */
  cpuMsPerJob: number;
  cpuMsPerJobByProcess: Record<string, number>;
  /** CPU time per job in each round; their spread is the noise. */
  roundsCpuMsPerJob: number[];
  /** Quantiles of the times. */
  timesMs: Record<string, { p50: number; p95: number; p99: number }>;
  /** Resident memory at the start of the last load, and the highest in any round. */
  firstBytesByProcess: Record<string, number>;
  peakBytesByProcess: Record<string, number>;
}

/** Result of one way under one load in one round. */
interface Slice {
  result: LoadResult;
  seconds: number;
  cpuMs: Record<string, number>;
  firstBytes: Record<string, number>;
  peakBytes: Record<string, number>;
}

interface Running {
  rounds: number;
  started: Stops;
  report: (line: string) => void;
}

/** Wait after a load, because Temporal completes workflow tasks after the last step. */
const lastTasksMs = 1000;
const sampleIntervalMs = 1000;

/** Measures every way under every load, with new processes in each round. */
export async function measure<Load extends { name: string }>(
  { ways, loads, warmUp }: Benchmark<Load>,
  { rounds, started, report }: Running,
): Promise<Cell[]> {
  const cells = ways.map((way) => ({ way, slices: loads.map((): Slice[] => []) }));
  for (let round = 1; round <= rounds; round += 1) {
    // The order alternates, because the later way of a round is slower.
    for (const { way, slices } of round % 2 === 0 ? cells.toReversed() : cells) {
      const open = await way.open();
      let stopped: Promise<void> | undefined;
      const stop = (): Promise<void> => (stopped ??= open.stop());
      started.push(stop);
      await open.run(warmUp);
      for (const [index, load] of loads.entries()) {
        const slice = await measureSlice(open, load);
        slices[index]?.push(slice);
        const cell = cellOf([way.name, load.name], [slice]);
        report(`round ${round} of ${rounds} · ${lineOf(cell)}`);
      }
      await stop();
    }
  }
  return cells.flatMap(({ way, slices }) =>
    loads.map(({ name }, index) => cellOf([way.name, name], slices[index] ?? [])),
  );
}

/** Renders a cell in one line. */
function lineOf({ way, load, jobs, cpuMsPerJob, failures, firstFailure }: Cell): string {
  const bad = failures > 0 ? `, ${failures} failed: ${firstFailure}` : '';
  return `${way}, ${load}: ${jobs} jobs, CPU ${cpuMsPerJob.toFixed(1)} ms each${bad}`;
}

async function measureSlice<Load>(open: OpenWay<Load>, load: Load): Promise<Slice> {
  const before = readUsage(open.pids);
  const firstBytes = of(before, ({ residentBytes }) => residentBytes);
  const peakBytes = { ...firstBytes };
  const sample = (): Record<string, Usage> => {
    const usage = readUsage(open.pids);
    for (const [name, { residentBytes }] of Object.entries(usage)) {
      peakBytes[name] = Math.max(peakBytes[name] ?? 0, residentBytes);
    }
    return usage;
  };
  const beganAt = performance.now();
  const sampling = setInterval(sample, sampleIntervalMs);
  try {
    const result = await open.run(load);
    const seconds = (performance.now() - beganAt) / 1000;
    await sleep(lastTasksMs);
    const cpuMs = of(sample(), (usage, name) => usage.cpuMs - (before[name]?.cpuMs ?? 0));
    return { result, seconds, cpuMs, firstBytes, peakBytes };
  } finally {
    clearInterval(sampling);
  }
}

/** Maps the values of a record. */
function of<Value, Other>(
  values: Record<string, Value>,
  change: (value: Value, name: string) => Other,
): Record<string, Other> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, change(value, name)]),
  );
}

function cellOf([way, load]: [string, string], slices: readonly Slice[]): Cell {
  const jobsOf = ({ result }: Slice): number => Object.values(result.timesMs)[0]?.length ?? 0;
  const cpuOf = ({ cpuMs }: Slice): number => sum(Object.values(cpuMs));
  const jobs = sum(slices.map(jobsOf));
  const [first] = slices;
  return {
    way,
    load,
    jobs,
    failures: sum(slices.map(({ result }) => result.failures)),
    firstFailure: slices.find(({ result }) => result.firstFailure)?.result.firstFailure ?? null,
    jobsPerSecond: jobs / sum(slices.map(({ seconds }) => seconds)),
    cpuMsPerJob: sum(slices.map(cpuOf)) / Math.max(1, jobs),
    cpuMsPerJobByProcess: of(
      first?.cpuMs ?? {},
      (_, name) => sum(slices.map(({ cpuMs }) => cpuMs[name] ?? 0)) / Math.max(1, jobs),
    ),
    roundsCpuMsPerJob: slices.map((slice) => cpuOf(slice) / Math.max(1, jobsOf(slice))),
    timesMs: of(first?.result.timesMs ?? {}, (_, name) => {
      const sorted = slices.flatMap(({ result }) => result.timesMs[name] ?? []);
      sorted.sort((a, b) => a - b);
      const [p50 = 0, p95 = 0, p99 = 0] = [0.5, 0.95, 0.99].map((at) => quantile(sorted, at));
      return { p50, p95, p99 };
    }),
    firstBytesByProcess: slices.at(-1)?.firstBytes ?? {},
    peakBytesByProcess: of(first?.peakBytes ?? {}, (_, name) =>
      Math.max(...slices.map(({ peakBytes }) => peakBytes[name] ?? 0)),
    ),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
