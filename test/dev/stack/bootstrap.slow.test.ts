import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { newFolder } from '../../harness/folders.ts';
import { runProgram } from '../../harness/programs.ts';

const bootstrap = join(import.meta.dirname, '../../../dev/stack/bootstrap.mjs');

const lock = {
  packages: { '': {}, 'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' } },
};

/** A replacement of npm: `ci` and `install` copy the lockfile, unless NPM_FAILS names them. */
const npm = `
const fs = require('node:fs');
const [, , verb] = process.argv;
fs.appendFileSync('npm-runs', verb + '\\n');
if (verb === process.env.NPM_FAILS || process.env.NPM_FAILS === 'always') process.exit(1);
setTimeout(() => {
  fs.mkdirSync('node_modules/.bin', { recursive: true });
  fs.copyFileSync('package-lock.json', 'node_modules/.package-lock.json');
  fs.rmSync('node_modules/.bin/node', { force: true });
  fs.symlinkSync(process.env.PINNED_NODE, 'node_modules/.bin/node');
}, 300);
`;

/** Creates a project with this script and one dependency, which is not installed. */
function project(script = 'console.log("ran")'): string {
  const directory = newFolder();
  mkdirSync(join(directory, 'dev/stack'), { recursive: true });
  cpSync(bootstrap, join(directory, 'dev/stack/bootstrap.mjs'));
  writeFileSync(join(directory, 'package-lock.json'), JSON.stringify(lock));
  writeFileSync(join(directory, 'npm.js'), npm);
  writeFileSync(join(directory, 'x.js'), script);
  return directory;
}

/** Creates a project whose dependency is installed. */
function installedProject(script?: string): string {
  const directory = project(script);
  mkdirSync(join(directory, 'node_modules', '.bin'), { recursive: true });
  writeFileSync(join(directory, 'node_modules', '.package-lock.json'), JSON.stringify(lock));
  symlinkSync(process.execPath, join(directory, 'node_modules', '.bin', 'node'));
  return directory;
}

function start(directory: string, args: string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, ['dev/stack/bootstrap.mjs', ...args], {
    cwd: directory,
    env: {
      ...process.env,
      npm_execpath: join(directory, 'npm.js'),
      PINNED_NODE: process.execPath,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const ended = once(child, 'close').then(([code]: unknown[]) => ({ code, output }));
  return { child, ended };
}

const npmRuns = (directory: string) =>
  readFileSync(join(directory, 'npm-runs'), 'utf8').trim().split('\n');

describe('the bootstrap', () => {
  it('runs the script with its arguments and keeps the exit code', async () => {
    const directory = installedProject('console.log(process.argv[2]); process.exit(7)');
    const ended = await start(directory, ['x.js', 'word']).ended;
    expect(ended).toEqual({ code: 7, output: 'word\n' });
  });

  it('passes a signal on and waits for the script', async () => {
    const directory = installedProject(
      `process.on('SIGTERM', () => setTimeout(() => { console.log('tidy'); process.exit(3); }, 100));
       console.log('up'); setInterval(() => {}, 1000);`,
    );
    const { child, ended } = start(directory, ['x.js']);
    await once(child.stdout, 'data');
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ code: 3, output: 'up\ntidy\n' });
  });

  it('installs once if two start at the same time, and again if the lockfile changes', async () => {
    const directory = project();
    const both = [start(directory, ['x.js']), start(directory, ['x.js'])];
    const results = await Promise.all(both.map(({ ended }) => ended));
    expect(results.map(({ code }) => code)).toEqual([0, 0]);
    expect(results.every(({ output }) => output.includes('ran'))).toBe(true);
    expect(npmRuns(directory)).toEqual(['ci']);

    const { packages } = lock;
    const changed = { ...packages, 'node_modules/a': { version: '1.0.1', integrity: 'sha512-b' } };
    writeFileSync(join(directory, 'package-lock.json'), JSON.stringify({ packages: changed }));
    await start(directory, []).ended;
    expect(npmRuns(directory)).toEqual(['ci', 'ci']);
  });

  it('does not install again while a process runs from the installed packages', async () => {
    const directory = installedProject();
    // A program in node_modules, such as the pinned Node or Postgres.
    const program = join(directory, 'node_modules', 'sleep');
    copyFileSync(execFileSync('which', ['sleep'], { encoding: 'utf8' }).trim(), program);
    const running = spawn(program, ['60']);
    onTestFinished(() => void running.kill('SIGKILL'));
    await once(running, 'spawn');
    expect(await start(directory, ['x.js']).ended).toMatchObject({ code: 0, output: 'ran\n' });
    const tool = { version: '1.0.0', integrity: 'sha512-t', dev: true };
    const changed = { packages: { ...lock.packages, 'node_modules/tool': tool } };
    writeFileSync(join(directory, 'package-lock.json'), JSON.stringify(changed));
    expect(await start(directory, ['--without-dev', 'x.js']).ended).toMatchObject({ code: 0 });
    const output = expect.stringContaining(String(running.pid));
    expect(await start(directory, ['x.js']).ended).toEqual({ code: 1, output });
    expect(existsSync(join(directory, 'npm-runs'))).toBe(false);
    running.kill('SIGKILL');
    await once(running, 'exit');
    expect(await start(directory, ['x.js']).ended).toMatchObject({ code: 0 });
    expect(npmRuns(directory)).toEqual(['ci']);
  });

  it('falls back to npm install, and fails with a clear message if that fails too', async () => {
    const directory = project();
    expect(await start(directory, [], { NPM_FAILS: 'ci' }).ended).toMatchObject({ code: 0 });
    expect(npmRuns(directory)).toEqual(['ci', 'install']);
    const broken = await start(project(), ['x.js'], { NPM_FAILS: 'always' }).ended;
    const output = expect.stringContaining('npm did not install the versions in package-lock.json');
    expect(broken).toEqual({ code: 1, output });
  });
});

/** Runs a program of .ci/ on JSON files; `undefined` is a file that does not exist. */
function runOn(program: string, ...contents: unknown[]) {
  const directory = newFolder();
  const paths = contents.map((content, index) => {
    const path = join(directory, `${index}.json`);
    if (content !== undefined) writeFileSync(path, JSON.stringify(content));
    return path;
  });
  return runProgram(`.ci/${program}`, paths);
}

const makeReport = (testResults: unknown) => testResults && { testResults };

describe('a CI run', () => {
  const passed = { name: 'a', status: 'passed', assertionResults: [{ status: 'passed' }] };
  const error = 'Error: not two\n    at test/b.ts:1:1\n    at node:internal/timers:1:1';
  const lost = { status: 'failed', fullName: 'counts', failureMessages: [error] };
  const failed = { name: resolve('b'), status: 'failed', assertionResults: [lost] };
  const failedLines = 'failed: b: counts\nError: not two\n    at test/b.ts:1:1\n\n';
  const message = 'Error: no package';
  const broken = { name: resolve('c'), status: 'failed', assertionResults: [], message };
  const brokenLines = `failed: c\n${message}\n\n`;
  const page = { status: 'skipped', fullName: 'a page (needs a stack)' };
  const skipped = { name: resolve('d'), status: 'passed', assertionResults: [page, page] };
  const skippedLine = 'skipped: 2 tests of d\n';
  const again = (...names: string[]) => names.map((name) => ({ ...passed, name: resolve(name) }));
  const flaky = (lines: string): string => lines.replace('failed:', 'flaky:');
  const failedElsewhere = { ...failed, name: resolve('e') };
  const manyFlaky = [failedLines, brokenLines, failedLines.replace('b:', 'e:')].map(flaky).join('');

  it.each<[string, (object[] | undefined)[], number, string]>([
    ['all passed', [[passed]], 0, '1 passed, 0 failed\n'],
    [
      'failed and missing tests with their errors',
      [[passed, failed, broken]],
      1,
      `${failedLines}${brokenLines}1 passed, 2 failed\n`,
    ],
    ['skipped tests by file', [[passed, skipped]], 0, `${skippedLine}1 passed, 0 failed\n`],
    [
      'a flaky file, with the error of its first run',
      [[passed, failed], again('b')],
      0,
      `${flaky(failedLines)}2 passed, 0 failed\n`,
    ],
    [
      'three flaky files as a failed run',
      [[passed, failed, broken, failedElsewhere], again('e', 'b', 'c')],
      1,
      `${manyFlaky}failed: at most 1 file may be flaky (found 3)\n4 passed, 0 failed\n`,
    ],
    [
      'a file that fails twice',
      [[passed, failed], [failed]],
      1,
      `${failedLines}1 passed, 1 failed\n`,
    ],
    ['no report at all', [undefined], 1, '0 passed, 1 failed\n'],
    ['no second report', [[passed, failed], undefined], 1, '0 passed, 1 failed\n'],
  ])('totals %s', async (_name, reports, status, stdout) => {
    expect(await runOn('total.mjs', ...reports.map(makeReport))).toMatchObject({ status, stdout });
  });

  const manyFailed = Array.from({ length: 9 }, (_, index) => ({ ...failed, name: `${index}` }));
  it.each([
    [
      'the files that failed',
      [passed, failed, broken, skipped],
      `${resolve('b')}\n${resolve('c')}\n`,
    ],
    ['none when all passed', [passed], ''],
    ['none when more fail than a slow moment explains', manyFailed, ''],
    ['none without a report', undefined, ''],
  ])('runs again %s', async (_name, report, expected) => {
    expect((await runOn('failed.mjs', makeReport(report))).stdout).toBe(expected);
  });

  const cost = (cpuMs: number) => ({ cpuMs, wallMs: 1 });
  it('names files whose CPU grew by more than half and a second, and counts unrecorded files', async () => {
    const costs = { grown: cost(3900), noise: cost(900), same: cost(3000), added: cost(1000) };
    const recorded = { grown: cost(2000), noise: cost(100), same: cost(2500), gone: cost(1) };
    const lines = [
      'uses more CPU: grown (3.9 s, recorded 2.0 s)',
      'not in the recorded costs: 1 test files',
    ];
    const stdout = `${lines.join('\n')}\n`;
    expect(await runOn('costs.mjs', costs, recorded)).toMatchObject({ status: 0, stdout });
  });

  it('fails for a file of `npm test` that uses too much CPU', async () => {
    const costs = {
      'a.test.ts': cost(21_000),
      'b.slow.test.ts': cost(90_000),
    };
    const stdout =
      'failed: a.test.ts used 21.0 s of CPU; a file of npm test may use 20.0 s (or is named *.slow.test.ts)\n';
    expect(await runOn('costs.mjs', costs, costs)).toMatchObject({ status: 1, stdout });
  });
});
