/**
 * Prints the number of skipped tests of each file, the tests that failed in flaky files and those that failed in both
 * runs with their errors, then `N passed, N failed`, from vitest's JSON reports of a run and, if there was one, of the
 * second run of its failed files.
 * A file is flaky when it failed once and then passed. Fails when a test failed in both runs, and when more than one
 * file is flaky. A test file that could not be loaded counts as one failure: its tests are not in the report.
 */
import { relative } from 'node:path';
import { failedFiles, readFiles } from './report.mjs';

/** A second flaky file is a defect; one is accepted on machines that are shared. */
const flakyMax = 1;
/** Characters of an error: enough for the difference of two values, and for some failures on one screen. */
const errorLengthMax = 600;

const having = (file, wanted) => file.assertionResults.filter(({ status }) => status === wanted);
const pathOf = ({ name }) => relative(process.cwd(), name);

/** The first characters of an error without the stack frames that lie outside of the project. */
const shorten = (error) =>
  error
    .split('\n')
    .filter((line) => !/^\s+at .*(node_modules|node:internal)/.test(line))
    .join('\n')
    .trim()
    .slice(0, errorLengthMax);

/** `{ name, error }` of the failures of a file; a file whose hooks or imports failed is one failure. */
function readFailures(file) {
  if (file.status !== 'failed') return [];
  const tests = having(file, 'failed');
  if (tests.length === 0) return [{ name: pathOf(file), error: file.message }];
  return tests.map(({ fullName, failureMessages }) => ({
    name: `${pathOf(file)}: ${fullName}`,
    error: failureMessages.join('\n'),
  }));
}

function readTotals(first, second) {
  const files = readFiles(first);
  const again = second === undefined ? new Map() : readFiles(second);
  if (files === null || again === null) return { last: [], flaky: [], unread: 1 };
  const flaky = failedFiles(files)
    .filter((name) => again.get(name)?.status === 'passed')
    .map((name) => files.get(name));
  const last = [...files.values()].map((file) => again.get(file.name) ?? file);
  return { last, flaky, unread: 0 };
}

const [first, second] = process.argv.slice(2);
const { last, flaky, unread } = readTotals(first, second);
const failures = last.flatMap(readFailures);
const passed = last.reduce((sum, file) => sum + having(file, 'passed').length, 0);
const failed = failures.length + unread;
const tooFlaky = flaky.length > flakyMax;
for (const file of last) {
  const { length } = having(file, 'skipped');
  if (length > 0) console.log(`skipped: ${length} tests of ${pathOf(file)}`);
}
for (const { name, error } of flaky.flatMap(readFailures)) {
  console.log(`flaky: ${name}\n${shorten(error)}\n`);
}
for (const { name, error } of failures) {
  console.log(`failed: ${name}\n${shorten(error)}\n`);
}
if (tooFlaky) console.log(`failed: at most ${flakyMax} file may be flaky (found ${flaky.length})`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 && !tooFlaky ? 0 : 1;
