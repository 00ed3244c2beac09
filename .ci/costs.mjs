/**
 * Compares the costs of test files with the recorded ones: names the files that use more than half as much CPU again,
 * and more than a second more. Arguments: the costs of this run, the recorded costs.
 */
import { readFileSync } from 'node:fs';

const growthMax = 1.5;
const noiseMs = 1000;

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
