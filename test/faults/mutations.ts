/**
 * `npm run dev -- mutations`: plants known faults, one by one, in a copy of the sources and runs the test files that must
 * fail. Prints `caught` or `NOT CAUGHT` for each; the exit code is 1 when a fault is not caught. A fault whose original
 * text is no longer in its file is an error.
 */
import assert from 'node:assert/strict';
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

interface Fault {
  name: string;
  file: string;
  original: string;
  planted: string;
  tests: string[];
}

const faults: Fault[] = [
  {
    name: 'a release is booked on the day of the release',
    file: 'ledger/ledger.sql',
    original: `((d.r).created_at AT TIME ZONE 'UTC')::date`,
    planted: `(clock_timestamp() AT TIME ZONE 'UTC')::date`,
    tests: ['test/ledger/budgets.test.ts'],
  },
  {
    name: 'cookies are never Secure',
    file: 'api/identity/sessions.ts',
    original: `protocol === 'https:'`,
    planted: 'protocol === null',
    tests: ['test/api/secure-cookies.test.ts'],
  },
  {
    name: 'keys of fal never expire',
    file: 'providers/fal/fal-notifications.ts',
    original: 'performance.now() - fetchedAtMs < keysAgeMaxMs',
    planted: 'performance.now() - fetchedAtMs < Infinity',
    tests: ['test/activities/fal-keys.test.ts'],
  },
];

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
function isCaught(directory: string, { name, file, original, planted, tests }: Fault): boolean {
  const path = join(directory, file);
  const source = readFileSync(path, 'utf8');
  assert.equal(source.split(original).length, 2, `${name}: ${file} must have ${original} once`);
  writeFileSync(path, source.replace(original, planted));
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const report = join(directory, '.cache/report.json');
  rmSync(report, { force: true });
  const output = ['--reporter=json', `--outputFile.json=${report}`];
  spawnSync(process.execPath, [vitest, 'run', ...output, ...tests], { cwd: directory });
  writeFileSync(path, source);
  const { numFailedTests } = JSON.parse(readFileSync(report, 'utf8')) as { numFailedTests: number };
  return numFailedTests > 0;
}

const directory = mkdtempSync(join(tmpdir(), 'mutations-'));
try {
  copySources(directory);
  for (const fault of faults) {
    const caught = isCaught(directory, fault);
    console.log(`${caught ? 'caught' : 'NOT CAUGHT'}: ${fault.name}`);
    if (!caught) process.exitCode = 1;
  }
} finally {
  rmSync(directory, { recursive: true });
}
