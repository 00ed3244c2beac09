/**
 * Compares the costs of test files with the recorded ones: names the files that use more than half as much CPU again,
 * and more than a second more. Fails for files of `npm test` that use too much CPU.
 * Arguments: the costs of this run, the recorded costs.
 */
import { readFileSync } from 'node:fs';

const growthMax = 1.5;
const noiseMs = 1000;
/**
 * CPU in milliseconds above which a file of `npm test` fails the run: somewhat more than the most expensive one takes on
 * two busy cores. The aim is 4 seconds on a quiet machine.
 */
const fastMaxMs = 20_000;

const [costs, recorded] = process.argv
  .slice(2)
  .map((path) => new Map(Object.entries(JSON.parse(readFileSync(path, 'utf8')))));

const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;
for (const [file, { cpuMs }] of costs) {
  const before = recorded.get(file)?.cpuMs;
  if (before === undefined) continue;
  if (cpuMs > before * growthMax && cpuMs > before + noiseMs) {
    console.log(`uses more CPU: ${file} (${seconds(cpuMs)}, recorded ${seconds(before)})`);
  }
}
const added = [...costs.keys()].filter((file) => !recorded.has(file));
if (added.length > 0) console.log(`not in the recorded costs: ${added.length} test files`);
for (const [file, { cpuMs }] of costs) {
  if (file.endsWith('.slow.test.ts') || cpuMs <= fastMaxMs) continue;
  const limit = `a file of npm test may use ${seconds(fastMaxMs)} (or is named *.slow.test.ts)`;
  console.log(`failed: ${file} used ${seconds(cpuMs)} of CPU; ${limit}`);
  process.exitCode = 1;
}
