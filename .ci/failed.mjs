/**
 * Prints the paths of the test files that failed, from vitest's JSON report; nothing when there are more than
 * a machine's stalls explain.
 */
import { failedFiles, readFiles } from './report.mjs';

const stalledMax = 8;

const files = readFiles(process.argv[2]);
const failed = files === null ? [] : failedFiles(files);
if (failed.length <= stalledMax) for (const path of failed) console.log(path);
