/** What vitest's JSON reports say of test files. */
import { readFileSync } from 'node:fs';

/** `{ name, status, assertionResults }` of each file, by its path; null where there is no report. */
export function readFiles(path) {
  try {
    const { testResults } = JSON.parse(readFileSync(path, 'utf8'));
    return new Map(testResults.map((file) => [file.name, file]));
  } catch (error) {
    console.error(`no test report: ${error.message}`);
    return null;
  }
}

/** Paths of the files with a failure. */
export const failedFiles = (files) =>
  [...files.values()].filter(({ status }) => status === 'failed').map(({ name }) => name);
