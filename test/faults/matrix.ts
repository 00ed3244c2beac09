/**
 * `npm run dev -- faults`: the crash matrix. It kills each process at each point for each kind of
 * job; all kinds of a process and a point run together. It prints a table, and keeps results for
 * `--resume`.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { reaches, runColumn, victims, type CellResult, type Column } from './cell.ts';
import { kinds } from './kinds.ts';
import { points } from './points.ts';
import { shuffle } from './shuffle.ts';
import { startStack, type FaultStack } from './stack.ts';

const usage = `npm run dev -- faults [options]
  --seed <n>       order of the columns; printed, so that a run can be repeated
  --cells <list>   victim/point/kind, * for all, several with commas: worker/*/musicGenerate,*/stored/*
  --down <ms>      how long a killed process stays away (default 1500)
  --resume         go on where the last run with this seed was broken off
  --json           print the results as JSON`;

const { values: options } = parseArgs({
  options: {
    seed: { type: 'string' },
    cells: { type: 'string', default: '*/*/*' },
    down: { type: 'string', default: '1500' },
    resume: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

const recordPath = fileURLToPath(new URL('../../.cache/faults.json', import.meta.url));

/** The results of a run. */
interface Results {
  seed: number;
  results: CellResult[];
}

const readRecord = (): Results | null =>
  existsSync(recordPath) ? (JSON.parse(readFileSync(recordPath, 'utf8')) as Results) : null;

/** Returns whether `--cells` selects this cell. */
function isSelected(cell: readonly string[]): boolean {
  return options.cells.split(',').some((pattern) => {
    const parts = pattern.split('/');
    return cell.every((name, index) => ['*', undefined, name].includes(parts[index]));
  });
}

function listColumns(seed: number): Column[] {
  const all = victims.flatMap((victim) =>
    points.map((point) => ({
      victim,
      point,
      kinds: kinds.filter((kind) => reaches(kind, point) && isSelected([victim, point, kind.name])),
      downMs: Number(options.down),
    })),
  );
  const selected = all.filter((column) => column.kinds.length > 0);
  return shuffle(selected, seed);
}

function print(line: string): void {
  if (!options.json) process.stdout.write(`${line}\n`);
}

/** Formats a line per victim and point: numbers of completed and released jobs, and times. */
function formatTable(results: readonly CellResult[]): string {
  const rows = victims.flatMap((victim) =>
    points.map((point) => {
      const cells = results.filter((cell) => cell.victim === victim && cell.point === point);
      if (cells.length === 0) return null;
      const counts = (['completed', 'released', 'violated'] as const).map(
        (verdict) => cells.filter((cell) => cell.verdict === verdict).length,
      );
      const slowestSeconds = Math.max(...cells.map(({ recoveryMs }) => recoveryMs)) / 1000;
      return `| ${victim} | ${point} | ${counts.join(' | ')} | ${slowestSeconds.toFixed(1)} |`;
    }),
  );
  const head = '| victim | point | completed | released | violated | slowest, s |';
  return [head, '| --- | --- | --: | --: | --: | --: |', ...rows.filter(Boolean)].join('\n');
}

async function runAll(columns: readonly Column[], record: Results): Promise<void> {
  let stack: FaultStack | null = null;
  try {
    for (const [index, column] of columns.entries()) {
      stack ??= await startStack();
      const name = `${column.victim}/${column.point}`;
      const startedAt = performance.now();
      let results: CellResult[];
      try {
        results = await runColumn(stack, column);
      } catch (error) {
        print(`${name}: the harness failed: ${String(error)}`);
        process.exitCode = 1;
        await stack.close();
        stack = null;
        continue;
      }
      record.results.push(...results);
      mkdirSync(new URL('./', `file://${recordPath}`), { recursive: true });
      writeFileSync(recordPath, JSON.stringify(record));
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      const bad = results.filter(({ verdict }) => verdict === 'violated');
      const released = results.filter(({ verdict }) => verdict === 'released').length;
      print(
        `${index + 1}/${columns.length} ${name}: ${results.length} jobs, ${released} released, ` +
          `${bad.length} violated (${seconds} s)`,
      );
      for (const cell of bad) print(`    ${cell.kind}: ${cell.violations.join('; ')}`);
    }
  } finally {
    await stack?.close();
  }
}

async function main(): Promise<void> {
  if (options.help) return print(usage);
  const last = options.resume ? readRecord() : null;
  const seed = Number(options.seed ?? last?.seed ?? Date.now() % 1_000_000);
  const record: Results = last?.seed === seed ? last : { seed, results: [] };
  const columns = listColumns(seed).filter(
    ({ victim, point }) =>
      !record.results.some((cell) => cell.victim === victim && cell.point === point),
  );
  print(`seed ${seed}: ${columns.length} columns`);
  await runAll(columns, record);
  const violated = record.results.filter(({ verdict }) => verdict === 'violated');
  const total = `seed ${seed}: ${record.results.length} cells, ${violated.length} violated`;
  if (options.json) process.stdout.write(`${JSON.stringify(record)}\n`);
  else print(`\n${formatTable(record.results)}\n\n${total}`);
  if (violated.length > 0) process.exitCode = 1;
}

await main();
