/**
 * A reporter that prints the ten most expensive test files of a run and writes the costs of all of them to
 * `.cache/test-costs.json`.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';
import type { FileCost } from './file-costs.ts';

const costsPath = '.cache/test-costs.json';
const printedMax = 10;
const seconds = (ms: number): string => `${(ms / 1000).toFixed(1).padStart(6)} s`;

/** Reporter of the CPU time of test files. */
export default class CostReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const costs = modules
      .flatMap((module): [string, FileCost][] => {
        const { cost } = module.meta();
        return cost ? [[module.relativeModuleId, cost]] : [];
      })
      .toSorted(([, a], [, b]) => b.cpuMs - a.cpuMs);
    mkdirSync('.cache', { recursive: true });
    const lines = costs.map(([file, cost]) => `${JSON.stringify(file)}: ${JSON.stringify(cost)}`);
    writeFileSync(costsPath, `{\n${lines.join(',\n')}\n}\n`);
    const totalMs = costs.reduce((sum, [, { cpuMs }]) => sum + cpuMs, 0);
    console.log(`\nMost expensive of ${costs.length} test files (CPU, wall time):`);
    for (const [file, { cpuMs, wallMs }] of costs.slice(0, printedMax)) {
      console.log(`${seconds(cpuMs)} ${seconds(wallMs)}  ${file}`);
    }
    console.log(
      `${seconds(totalMs)} of CPU in all files, without Postgres and Temporal (${costsPath})`,
    );
  }
}
