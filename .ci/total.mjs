/**
 * Prints what was skipped and what passed only in its second run, then `N passed, N failed`, from vitest's JSON
 * reports of a run and, if there was one, of the second run of its failed files; fails when something failed
 * in both. A test file that could not be loaded counts as one failure: its tests are not in the report.
 */
import { failedFiles, readFiles } from './report.mjs';

function readTotals(first, second) {
  const files = readFiles(first);
  const again = second === undefined ? new Map() : readFiles(second);
  if (files === null || again === null) return { passed: 0, failed: 1, skipped: [], mended: [] };
  const mended = failedFiles(files).filter((name) => again.get(name)?.status === 'passed');
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
    mended,
  };
}

const [first, second] = process.argv.slice(2);
const { passed, failed, skipped, mended } = readTotals(first, second);
for (const name of skipped) console.log(`skipped: ${name}`);
for (const name of mended) console.log(`passed in its second run: ${name}`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
