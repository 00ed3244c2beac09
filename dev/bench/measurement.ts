/** Measuring columns under an open loop, in rounds that alternate: so noise meets them all. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Column, OpenColumn } from './columns.ts';
import type { LoadResult, OpenLoad } from './open-loop.ts';
import { readUsage } from './process-usage.ts';
import { quantile } from './quantile.ts';
import { runWhileOpen, type Stops } from './stops.ts';

/** One column at one rate, over all rounds. */
export interface Cell {
  column: string;
  /** Jobs per second that were asked for. */
  rate: number;
  /** That ended well. */
  jobs: number;
  refused: number;
  /** Accepted, and not ended well. */
  lost: number;
  firstFailure: string | null;
  /** CPU of all processes but provider and load generator, milliseconds per job. */
  cpuMsPerJob: number;
  cpuMsPerJobByProcess: Record<string, number>;
  /** CPU of each round by itself: their spread is the noise. */
  roundsCpuMsPerJob: number[];
  /** From when a job was due to be asked for to its creation. */
  untilCreatedMs: Quantiles;
  /** From its creation to its end, without the provider's seconds. */
  beyondMs: Quantiles;
  /** Most of resident memory that each process held at once, bytes. */
  peakBytesByProcess: Record<string, number>;
}

/** Of milliseconds. */
interface Quantiles {
  p50: number;
  p95: number;
  p99: number;
}

/** One load of one column. */
interface Slice {
  load: OpenLoad;
  result: LoadResult;
  cpuMs: Record<string, number>;
  peakBytes: Record<string, number>;
}

/** What to measure. */
export interface MeasurePlan {
  rates: readonly number[];
  seconds: number;
  providerSeconds: number;
  rounds: number;
  /** What is started and how it is stopped, should the run end early. */
  started: Stops;
  report: (line: string) => void;
}

const warmUpSecondsMax = 10;
/** The last workflow tasks are after the last step. */
const lastTasksMs = 1000;
const sampleIntervalMs = 1000;

/** Measures every column at every rate, in processes that are new in each round. */
export async function measure(columns: readonly Column[], plan: MeasurePlan): Promise<Cell[]> {
  const cells = columns.map((column) => ({ column, slices: plan.rates.map((): Slice[] => []) }));
  for (let round = 1; round <= plan.rounds; round += 1) {
    // What comes second is slower for coming second: so each is first in its turn.
    for (const { column, slices } of round % 2 === 0 ? cells.toReversed() : cells) {
      await runWhileOpen(column, plan.started, async (open) => {
        await warmUp(open, plan);
        for (const [index, rate] of plan.rates.entries()) {
          const slice = await measureSlice(open, { ...plan, rate });
          slices[index]?.push(slice);
          const cell = cellOf(column.name, [slice]);
          plan.report(`round ${round} of ${plan.rounds} · ${inWords(cell)}`);
        }
      });
    }
  }
  return cells.flatMap(({ column, slices }) => slices.map((some) => cellOf(column.name, some)));
}

/** Measures one column at the rates that `next` asks for, until it asks for none. */
export async function measureSteps(
  column: Column,
  plan: MeasurePlan,
  next: (last: Cell | null) => number | null,
): Promise<Cell[]> {
  const cells: Cell[] = [];
  await runWhileOpen(column, plan.started, async (open) => {
    await warmUp(open, plan);
    for (let rate = next(null); rate !== null; rate = next(cells.at(-1) ?? null)) {
      const cell = cellOf(column.name, [await measureSlice(open, { ...plan, rate })]);
      cells.push(cell);
      plan.report(inWords(cell));
    }
  });
  return cells;
}

/** A cell in one line. */
function inWords(cell: Cell): string {
  const { column, rate, jobs, refused, lost, cpuMsPerJob, beyondMs } = cell;
  const bad = refused + lost > 0 ? `, ${refused} refused, ${lost} lost: ${cell.firstFailure}` : '';
  const beyond = `p50 ${beyondMs.p50.toFixed(0)}, p95 ${beyondMs.p95.toFixed(0)} ms beyond`;
  return `${column} at ${rate}/s: ${jobs} jobs, CPU ${cpuMsPerJob.toFixed(0)} ms each, ${beyond}${bad}`;
}

async function warmUp(open: OpenColumn, plan: MeasurePlan): Promise<void> {
  await open.run({
    rate: plan.rates[0] ?? 1,
    seconds: Math.min(plan.seconds / 2, warmUpSecondsMax),
    providerSeconds: Math.min(plan.providerSeconds, 1),
  });
}

async function measureSlice(open: OpenColumn, load: OpenLoad): Promise<Slice> {
  const { rate, seconds, providerSeconds } = load;
  const before = readUsage(open.pids);
  const peakBytes: Record<string, number> = {};
  const sample = (): ReturnType<typeof readUsage> => {
    const usage = readUsage(open.pids);
    for (const [name, { residentBytes }] of Object.entries(usage)) {
      peakBytes[name] = Math.max(peakBytes[name] ?? 0, residentBytes);
    }
    return usage;
  };
  const sampling = setInterval(sample, sampleIntervalMs);
  try {
    const result = await open.run({ rate, seconds, providerSeconds });
    await sleep(lastTasksMs);
    const spent = Object.entries(sample()).map(([name, { cpuMs }]): [string, number] => [
      name,
      cpuMs - (before[name]?.cpuMs ?? 0),
    ]);
    return { load, result, cpuMs: Object.fromEntries(spent), peakBytes };
  } finally {
    clearInterval(sampling);
  }
}

function cellOf(column: string, slices: readonly Slice[]): Cell {
  const results = slices.map(({ result }) => result);
  const jobs = results.flatMap((result) => result.jobs);
  const providerMs = (slices[0]?.load.providerSeconds ?? 0) * 1000;
  const names = Object.keys(slices[0]?.cpuMs ?? {});
  const cpuOf = (slice: Slice): number => sum(names.map((name) => slice.cpuMs[name] ?? 0));
  return {
    column,
    rate: slices[0]?.load.rate ?? 0,
    jobs: jobs.length,
    refused: sum(results.map(({ refused }) => refused)),
    lost: sum(results.map(({ lost }) => lost)),
    firstFailure: results.find(({ firstFailure }) => firstFailure !== null)?.firstFailure ?? null,
    cpuMsPerJob: perJob(sum(slices.map(cpuOf)), jobs.length),
    cpuMsPerJobByProcess: Object.fromEntries(
      names.map((name) => [
        name,
        perJob(sum(slices.map(({ cpuMs }) => cpuMs[name] ?? 0)), jobs.length),
      ]),
    ),
    roundsCpuMsPerJob: slices.map((slice) => perJob(cpuOf(slice), slice.result.jobs.length)),
    untilCreatedMs: quantilesOf(jobs.map((job) => job.createdAtMs - job.askedAtMs)),
    beyondMs: quantilesOf(jobs.map((job) => job.endedAtMs - job.createdAtMs - providerMs)),
    peakBytesByProcess: Object.fromEntries(
      names.map((name) => [name, Math.max(...slices.map(({ peakBytes }) => peakBytes[name] ?? 0))]),
    ),
  };
}

function perJob(cpuMs: number, jobs: number): number {
  return cpuMs / Math.max(1, jobs);
}

function quantilesOf(numbers: readonly number[]): Quantiles {
  const sorted = numbers.toSorted((a, b) => a - b);
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), p99: quantile(sorted, 0.99) };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

const lateMsMax = 1000;
/** A rate is known well enough when the next one that was tried and not held is so near. */
const nearness = 0.05;

/** Whether all jobs of a cell ended well, and nearly all were created soon and ended soon after their provider. */
export function isHeld({ jobs, refused, lost, untilCreatedMs, beyondMs }: Cell): boolean {
  const areAllWell = jobs > 0 && refused + lost === 0;
  return areAllWell && untilCreatedMs.p95 <= lateMsMax && beyondMs.p95 <= lateMsMax;
}

/**
 * The next rate to try: a fifth more until one is not held, then halves of what lies between.
 * @param tried rates and whether they were held, in any order
 * @returns null when the highest held rate is known to a job a second or a twentieth
 */
export function nextRate(
  first: number,
  tried: readonly { rate: number; held: boolean }[],
): number | null {
  if (tried.length === 0) return first;
  const held = heldRate(tried);
  const above = Math.min(...tried.filter((step) => !step.held).map(({ rate }) => rate));
  if (above === Infinity) return held + Math.max(1, Math.round(held / 5));
  if (above - held <= Math.max(1, held * nearness)) return null;
  return Math.round((held + above) / 2);
}

/** The highest rate below all that were not held; 0 when there is none. */
export function heldRate(tried: readonly { rate: number; held: boolean }[]): number {
  const above = Math.min(...tried.filter((step) => !step.held).map(({ rate }) => rate));
  return Math.max(
    0,
    ...tried.filter(({ rate, held }) => held && rate < above).map(({ rate }) => rate),
  );
}
