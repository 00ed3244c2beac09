/**
 * Prints the skipped tests and the flaky files, then `N passed, N failed`, from vitest's JSON reports of a run and, if
 * there was one, of the second run of its failed files. A file is flaky when it failed once and then passed. Fails when
 * a test failed in both runs, and when more than one file is flaky. A test file that could not be loaded counts as one
 * failure: its tests are not in the report.
 */
import { failedFiles, readFiles } from './report.mjs';

/** A second flaky file is a defect; one is accepted on machines that are shared. */
const flakyMax = 1;

function readTotals(first, second) {
  const files = readFiles(first);
  const again = second === undefined ? new Map() : readFiles(second);
  if (files === null || again === null) return { passed: 0, failed: 1, skipped: [], flaky: [] };
  const flaky = failedFiles(files).filter((name) => again.get(name)?.status === 'passed');
  const last = [...files.values()].map((file) => again.get(file.name) ?? file);
  const tests = last.flatMap(({ assertionResults }) => assertionResults);
  const having = (wanted) => tests.filter(({ status }) => status === wanted);
  const unloaded = last.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  );
  return {
    passed: having('passed').length,
    failed: having('failed').length + unloaded.length,
    skipped: having('skipped').map(({ fullName }) => fullName),
    flaky,
  };
}

const [first, second] = process.argv.slice(2);
const { passed, failed, skipped, flaky } = readTotals(first, second);
const tooFlaky = flaky.length > flakyMax;
for (const name of skipped) console.log(`skipped: ${name}`);
if (tooFlaky) console.log(`failed: at most ${flakyMax} file may be flaky (found ${flaky.length})`);
for (const name of flaky) console.log(`flaky: ${name}`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 && !tooFlaky ? 0 : 1;
