/**
 * Prints what was skipped, then `N passed, N failed`, from vitest's JSON report, and fails when something
 * failed. A test file that could not be loaded counts as one failure: its tests are not in the report.
 */
import { readFileSync } from 'node:fs';

function readTotals(path) {
  try {
    const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(path, 'utf8'));
    const broken = testResults.filter(
      ({ status, assertionResults }) =>
        status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
    );
    const skipped = testResults
      .flatMap(({ assertionResults }) => assertionResults)
      .filter(({ status }) => status === 'skipped')
      .map(({ fullName }) => fullName);
    return { passed: numPassedTests, failed: numFailedTests + broken.length, skipped };
  } catch (error) {
    console.error(`no test report: ${error.message}`);
    return { passed: 0, failed: 1, skipped: [] };
  }
}

const { passed, failed, skipped } = readTotals(process.argv[2]);
for (const name of skipped) console.log(`skipped: ${name}`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
