/**
 * `npm run dev -- mutations [words]`: plants known faults, one by one, in a copy of the sources and runs the test files that
 * must fail. Prints `caught` or `NOT CAUGHT` for each; the exit code is 1 when a fault is not caught. With words, it plants
 * only the faults whose names contain one of them. test/tidy.test.ts checks that each fault fits its file.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { faults, type Fault } from './planted-faults.ts';

const root = dirname(dirname(import.meta.dirname));

/** Copies the committed and new sources; the packages and the Temporal server are linked. */
function copySources(directory: string): void {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root });
  for (const file of listed.toString().trim().split('\n')) {
    cpSync(join(root, file), join(directory, file));
  }
  mkdirSync(join(root, '.cache/temporal'), { recursive: true });
  mkdirSync(join(directory, '.cache'));
  for (const folder of ['node_modules', '.cache/temporal']) {
    symlinkSync(join(root, folder), join(directory, folder));
  }
}

/** Returns whether the fault's tests fail while it is planted. */
function isCaught(directory: string, { file, original, planted, tests }: Fault): boolean {
  const path = join(directory, file);
  const source = readFileSync(path, 'utf8');
  const faulty = source.replace(original, () => planted);
  writeFileSync(path, faulty);
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const report = join(directory, '.cache/report.json');
  rmSync(report, { force: true });
  const output = ['--reporter=json', `--outputFile.json=${report}`];
  // One failing test is enough; the others may wait minutes for what the fault prevents.
  spawnSync(process.execPath, [vitest, 'run', '--bail=1', ...output, ...tests], { cwd: directory });
  writeFileSync(path, source);
  const { numFailedTests } = JSON.parse(readFileSync(report, 'utf8')) as { numFailedTests: number };
  return numFailedTests > 0;
}

const directory = mkdtempSync(join(tmpdir(), 'mutations-'));
try {
  copySources(directory);
  const words = process.argv.slice(2);
  const isChosen = ({ name }: Fault): boolean =>
    words.length === 0 || words.some((word) => name.includes(word));
  for (const fault of faults.filter(isChosen)) {
    const caught = isCaught(directory, fault);
    console.log(`${caught ? 'caught' : 'NOT CAUGHT'}: ${fault.name}`);
    if (!caught) process.exitCode = 1;
  }
} finally {
  rmSync(directory, { recursive: true });
}
