/** Measuring scenarios in interleaved rounds: every round visits every cell, so noise meets them all. */
import type { Load, LoopResult } from '../closed-loop.ts';
import { readUsage, type Usage } from '../process-usage.ts';
import { quantile } from '../quantile.ts';
import { renderTable } from '../table.ts';

/** One thing to measure. */
export interface Scenario {
  /** What cells are compared by. */
  kind: string;
  /** The kind, and the variant's name when there are several. */
  name: string;
  run: (load: Load) => Promise<LoopResult>;
  /** The processes that work for it. */
  pids: Record<string, number>;
}

/** One scenario at one concurrency, over all rounds. Times in milliseconds, per job where named so. */
export interface Cell {
  scenario: string;
  kind: string;
  concurrency: number;
  jobs: number;
  failures: number;
  firstFailure: string | null;
  jobsPerSecond: number;
  /** jobs/s of each round: their spread is the noise. */
  roundsJobsPerSecond: number[];
  p50Ms: number;
  p95Ms: number;
  p99Ms: number;
  /** CPU per job of all processes but the provider. */
  cpuMsPerJob: number;
  cpuMsPerJobByProcess: Record<string, number>;
  residentBytesByProcess: Record<string, number>;
}

/** What to measure how long. */
export interface MeasurePlan {
  concurrencies: readonly number[];
  /** Seconds per cell, shared by the rounds. */
  seconds: number;
  rounds: number;
  /** See `Load`. */
  spreadSeconds: number;
  report: (line: string) => void;
}

interface Slice {
  loop: LoopResult;
  cpuMs: Record<string, number>;
  after: Record<string, Usage>;
}

/** The provider is not ours: its CPU is shown, not added up. */
const foreign = 'sandbox';
const warmUpSecondsMax = 2;

/** Measures every scenario at every concurrency. */
export async function measure(scenarios: readonly Scenario[], plan: MeasurePlan): Promise<Cell[]> {
  for (const scenario of scenarios) {
    plan.report(`warming up ${scenario.name}`);
    // One at a time: that is the measurement.
    await scenario.run({ concurrency: 8, seconds: Math.min(plan.seconds, warmUpSecondsMax) });
  }
  const cells = plan.concurrencies.flatMap((concurrency) =>
    scenarios.map((scenario) => ({ scenario, concurrency, slices: [] as Slice[] })),
  );
  for (let round = 1; round <= plan.rounds; round += 1) {
    plan.report(`round ${round} of ${plan.rounds}`);
    for (const { scenario, concurrency, slices } of cells) {
      const { spreadSeconds } = plan;
      const load = { concurrency, seconds: plan.seconds / plan.rounds, spreadSeconds };
      // One at a time: that is the measurement.
      slices.push(await measureSlice(scenario, load));
    }
  }
  return cells.map(toCell);
}

async function measureSlice(scenario: Scenario, load: Load): Promise<Slice> {
  const before = readUsage(scenario.pids);
  const loop = await scenario.run(load);
  const after = readUsage(scenario.pids);
  const spent = ([name, usage]: [string, Usage]): [string, number] => [
    name,
    usage.cpuMs - (before[name]?.cpuMs ?? 0),
  ];
  return { loop, after, cpuMs: Object.fromEntries(Object.entries(after).map(spent)) };
}

function toCell(measured: { scenario: Scenario; concurrency: number; slices: Slice[] }): Cell {
  const { scenario, concurrency, slices } = measured;
  const loops = slices.map(({ loop }) => loop);
  const latencies = loops.flatMap((loop) => loop.latenciesMs).toSorted((a, b) => a - b);
  const elapsed = loops.reduce((total, loop) => total + loop.elapsedSeconds, 0);
  const perJob = (name: string): number =>
    slices.reduce((total, slice) => total + (slice.cpuMs[name] ?? 0), 0) /
    Math.max(1, latencies.length);
  const names = Object.keys(scenario.pids);
  const cpu = Object.fromEntries(names.map((name) => [name, perJob(name)]));
  return {
    scenario: scenario.name,
    kind: scenario.kind,
    concurrency,
    jobs: latencies.length,
    failures: loops.reduce((total, loop) => total + loop.failures, 0),
    firstFailure: loops.find((loop) => loop.firstFailure !== null)?.firstFailure ?? null,
    jobsPerSecond: latencies.length / elapsed,
    roundsJobsPerSecond: loops.map((loop) => loop.latenciesMs.length / loop.elapsedSeconds),
    p50Ms: quantile(latencies, 0.5),
    p95Ms: quantile(latencies, 0.95),
    p99Ms: quantile(latencies, 0.99),
    cpuMsPerJob: names.reduce(
      (total, name) => total + (name === foreign ? 0 : (cpu[name] ?? 0)),
      0,
    ),
    cpuMsPerJobByProcess: cpu,
    residentBytesByProcess: Object.fromEntries(
      names.map((name) => [name, slices.at(-1)?.after[name]?.residentBytes ?? 0]),
    ),
  };
}

/** A cell beside the upstream alone, at the same concurrency and in the same mode. */
export interface ComparedChat extends Cell {
  /** p50 beyond the upstream's own: of the whole answer, or of a stream's first token. */
  addedP50Ms: number | null;
}

/** Compares all cells. */
export function compareChats(cells: readonly Cell[]): ComparedChat[] {
  return cells.map((cell) => {
    const direct = cells.find(
      (other) =>
        other.scenario === 'direct' &&
        other.kind === cell.kind &&
        other.concurrency === cell.concurrency,
    );
    return { ...cell, addedP50Ms: direct ? cell.p50Ms - direct.p50Ms : null };
  });
}

/** A table with one row per cell. Of streams, the times are those to the first token. */
export function renderChats(cells: readonly ComparedChat[]): string {
  const head = [
    'way',
    'mode',
    'callers',
    'chats',
    'chats/s',
    'p50 ms',
    'p95',
    'p99',
    'added p50 ms',
    'CPU µs/chat',
    'by process',
  ];
  const rows = cells
    .toSorted((a, b) => a.kind.localeCompare(b.kind) * -1 || a.concurrency - b.concurrency)
    .map((cell) => [
      cell.scenario,
      cell.kind,
      String(cell.concurrency),
      `${cell.jobs}${cell.failures > 0 ? ` (${cell.failures} failed)` : ''}`,
      cell.jobsPerSecond.toFixed(0),
      ...[cell.p50Ms, cell.p95Ms, cell.p99Ms, cell.addedP50Ms ?? 0].map((ms) => ms.toFixed(2)),
      microseconds(cell.cpuMsPerJob),
      Object.entries(cell.cpuMsPerJobByProcess)
        .map(([name, ms]) => `${name} ${microseconds(ms)}`)
        .join(', '),
    ]);
  return renderTable([head, ...rows]);
}

function microseconds(ms: number): string {
  return (ms * 1000).toFixed(0);
}
