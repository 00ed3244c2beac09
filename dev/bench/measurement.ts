/** Measures several variants in alternating rounds, so that noise affects all of them equally. */
import { setTimeout as sleep } from 'node:timers/promises';
import { quantile, sum } from './load.ts';
import { readUsage, type Usage } from './process-usage.ts';
import type { Stops } from './stops.ts';

/** Server or engine to measure. */
export interface Variant<Load> {
  name: string;
  /** Starts its processes for one round. */
  open: () => Promise<OpenVariant<Load>>;
}

/** Variant with running processes. */
export interface OpenVariant<Load> {
  /** Process ids by name, without the provider and the load generator. */
  pids: Record<string, number>;
  /** Runs a load, and returns when its jobs have ended. */
  run: (load: Load) => Promise<LoadResult>;
  stop: () => Promise<void>;
}

/** Result of a load. */
export interface LoadResult {
  /** Measured times in milliseconds, by name; each list has one entry for each job that succeeded. */
  timesMs: Record<string, number[]>;
  /** Number of jobs that were rejected or failed. */
  failures: number;
  /** Message of the first failure. */
  firstFailure: string | null;
}

/** Variants and loads of a benchmark. */
export interface Benchmark<Load extends { name: string }> {
  variants: readonly Variant<Load>[];
  /** Loads that each round runs on each variant. */
  loads: readonly Load[];
  /** Load that runs first and is not measured. */
  warmUp: Load;
  /** Name of the variant with which the others are compared. */
  baseline: string;
}

/** Result of one variant under one load, over all rounds. */
export interface Cell {
  variant: string;
  load: string;
  /** Number of jobs that succeeded. */
  jobs: number;
  failures: number;
  firstFailure: string | null;
  jobsPerSecond: number;
  /** CPU time of all processes except the provider and the load generator. */
  cpuMsPerJob: number;
  cpuMsPerJobByProcess: Record<string, number>;
  /** CPU time per job in each round; their spread is the noise. */
  roundsCpuMsPerJob: number[];
  /** Quantiles of the measured times, by name. */
  timesMs: Record<string, { p50: number; p95: number; p99: number }>;
  /** Resident memory at the start of the last load, and the highest in any round. */
  firstBytesByProcess: Record<string, number>;
  peakBytesByProcess: Record<string, number>;
}

/** Result of one variant under one load in one round. */
interface Slice {
  result: LoadResult;
  seconds: number;
  cpuMs: Record<string, number>;
  firstBytes: Record<string, number>;
  peakBytes: Record<string, number>;
}

interface MeasureOptions {
  rounds: number;
  started: Stops;
  report: (line: string) => void;
}

/** Wait after a load: Temporal still completes workflow tasks after the last step. */
const lastTasksMs = 1000;
const sampleIntervalMs = 1000;

/** Measures every variant under every load, with new processes in each round. */
export async function measure<Load extends { name: string }>(
  { variants, loads, warmUp }: Benchmark<Load>,
  { rounds, started, report }: MeasureOptions,
): Promise<Cell[]> {
  const cells = variants.map((variant) => ({ variant, slices: loads.map((): Slice[] => []) }));
  for (let round = 1; round <= rounds; round += 1) {
    // The order alternates, because the later variants of a round are slower.
    for (const { variant, slices } of round % 2 === 0 ? cells.toReversed() : cells) {
      const open = await variant.open();
      let stopped: Promise<void> | undefined;
      const stop = (): Promise<void> => (stopped ??= open.stop());
      started.push(stop);
      await open.run(warmUp);
      for (const [index, load] of loads.entries()) {
        const slice = await measureSlice(open, load);
        slices[index]?.push(slice);
        const cell = combineSlices([variant.name, load.name], [slice]);
        report(`round ${round} of ${rounds} · ${formatCell(cell)}`);
      }
      await stop();
    }
  }
  return cells.flatMap(({ variant, slices }) =>
    loads.map(({ name }, index) => combineSlices([variant.name, name], slices[index] ?? [])),
  );
}

function formatCell({ variant, load, jobs, cpuMsPerJob, failures, firstFailure }: Cell): string {
  const failed = failures > 0 ? `, ${failures} failed: ${firstFailure}` : '';
  return `${variant}, ${load}: ${jobs} jobs, CPU ${cpuMsPerJob.toFixed(1)} ms each${failed}`;
}

async function measureSlice<Load>(open: OpenVariant<Load>, load: Load): Promise<Slice> {
  const before = readUsage(open.pids);
  const firstBytes = mapValues(before, ({ residentBytes }) => residentBytes);
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
    const cpuMs = mapValues(sample(), (usage, name) => usage.cpuMs - (before[name]?.cpuMs ?? 0));
    return { result, seconds, cpuMs, firstBytes, peakBytes };
  } finally {
    clearInterval(sampling);
  }
}

/** Applies `change` to each value of a record. */
function mapValues<Value, Other>(
  values: Record<string, Value>,
  change: (value: Value, name: string) => Other,
): Record<string, Other> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, change(value, name)]),
  );
}

function combineSlices([variant, load]: [string, string], slices: readonly Slice[]): Cell {
  const countJobs = ({ result }: Slice): number => Object.values(result.timesMs)[0]?.length ?? 0;
  const totalCpuMs = ({ cpuMs }: Slice): number => sum(Object.values(cpuMs));
  const jobs = sum(slices.map(countJobs));
  const [first] = slices;
  return {
    variant,
    load,
    jobs,
    failures: sum(slices.map(({ result }) => result.failures)),
    firstFailure: slices.find(({ result }) => result.firstFailure)?.result.firstFailure ?? null,
    jobsPerSecond: jobs / sum(slices.map(({ seconds }) => seconds)),
    cpuMsPerJob: sum(slices.map(totalCpuMs)) / Math.max(1, jobs),
    cpuMsPerJobByProcess: mapValues(
      first?.cpuMs ?? {},
      (_, name) => sum(slices.map(({ cpuMs }) => cpuMs[name] ?? 0)) / Math.max(1, jobs),
    ),
    roundsCpuMsPerJob: slices.map((slice) => totalCpuMs(slice) / Math.max(1, countJobs(slice))),
    timesMs: mapValues(first?.result.timesMs ?? {}, (_, name) => {
      const sorted = slices.flatMap(({ result }) => result.timesMs[name] ?? []);
      sorted.sort((a, b) => a - b);
      const [p50 = 0, p95 = 0, p99 = 0] = [0.5, 0.95, 0.99].map((at) => quantile(sorted, at));
      return { p50, p95, p99 };
    }),
    firstBytesByProcess: slices.at(-1)?.firstBytes ?? {},
    peakBytesByProcess: mapValues(first?.peakBytes ?? {}, (_, name) =>
      Math.max(...slices.map(({ peakBytes }) => peakBytes[name] ?? 0)),
    ),
  };
}
