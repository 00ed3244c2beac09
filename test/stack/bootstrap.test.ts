import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';

const bootstrap = join(dirname(dirname(import.meta.dirname)), 'dev/stack/bootstrap.mjs');
const ci = join(dirname(dirname(import.meta.dirname)), '.ci');

const lock = {
  packages: { '': {}, 'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' } },
};

/** Stands for npm: installs what the lockfile says, as `ci`, as `install`, or not at all. */
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

/** A project of one dependency, not installed. */
function project(): string {
  const directory = mkdtempSync(join(tmpdir(), 'project-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  mkdirSync(join(directory, 'dev/stack'), { recursive: true });
  cpSync(bootstrap, join(directory, 'dev/stack/bootstrap.mjs'));
  writeFileSync(join(directory, 'package-lock.json'), JSON.stringify(lock));
  writeFileSync(join(directory, 'npm.js'), npm);
  return directory;
}

function install(directory: string): void {
  mkdirSync(join(directory, 'node_modules', '.bin'), { recursive: true });
  writeFileSync(join(directory, 'node_modules', '.package-lock.json'), JSON.stringify(lock));
  symlinkSync(process.execPath, join(directory, 'node_modules', '.bin', 'node'));
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
  const ended = once(child, 'close').then(([code, signal]: unknown[]) => ({
    code,
    signal,
    output,
  }));
  return { child, ended };
}

const npmRuns = (directory: string) =>
  readFileSync(join(directory, 'npm-runs'), 'utf8').trim().split('\n');

describe('the bootstrap', () => {
  it('runs the script with its arguments and keeps the exit code', async () => {
    const directory = project();
    install(directory);
    writeFileSync(join(directory, 'x.js'), 'console.log(process.argv[2]); process.exit(7)');
    const { code, output } = await start(directory, ['x.js', 'word']).ended;
    expect({ code, output }).toEqual({ code: 7, output: 'word\n' });
  });

  it('passes a signal on and waits for the script', async () => {
    const directory = project();
    install(directory);
    writeFileSync(
      join(directory, 'x.js'),
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
    writeFileSync(join(directory, 'x.js'), 'console.log("ran")');
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
    const directory = project();
    install(directory);
    // As the pinned Node, or Postgres: a program in node_modules.
    const program = join(directory, 'node_modules', 'sleep');
    copyFileSync(execFileSync('which', ['sleep'], { encoding: 'utf8' }).trim(), program);
    const running = spawn(program, ['60']);
    onTestFinished(() => void running.kill('SIGKILL'));
    await once(running, 'spawn');
    writeFileSync(join(directory, 'x.js'), 'console.log("ran")');
    // What is installed is enough: it is used.
    expect(await start(directory, ['x.js']).ended).toMatchObject({ code: 0, output: 'ran\n' });
    const tool = { version: '1.0.0', integrity: 'sha512-t', dev: true };
    const changed = { packages: { ...lock.packages, 'node_modules/tool': tool } };
    writeFileSync(join(directory, 'package-lock.json'), JSON.stringify(changed));
    expect(await start(directory, ['--without-dev', 'x.js']).ended).toMatchObject({ code: 0 });
    const refused = await start(directory, ['x.js']).ended;
    expect(refused.code).toBe(1);
    expect(refused.output).toContain(String(running.pid));
    expect(existsSync(join(directory, 'npm-runs'))).toBe(false);
    running.kill('SIGKILL');
    await once(running, 'exit');
    expect(await start(directory, ['x.js']).ended).toMatchObject({ code: 0 });
    expect(npmRuns(directory)).toEqual(['ci']);
  });

  it('falls back to npm install, and fails with a clear message if that fails too', async () => {
    const directory = project();
    const fallback = await start(directory, [], { NPM_FAILS: 'ci' }).ended;
    expect(fallback.code).toBe(0);
    expect(npmRuns(directory)).toEqual(['ci', 'install']);
    const broken = await start(project(), ['x.js'], { NPM_FAILS: 'always' }).ended;
    expect(broken.code).toBe(1);
    expect(broken.output).toContain('npm did not install the versions in package-lock.json');
  });
});

/** Runs a program of .ci/ on JSON files; an absent one is a file that does not exist. */
async function runOn(program: string, ...contents: unknown[]) {
  const directory = mkdtempSync(join(tmpdir(), 'report-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const paths = contents.map((content, index) => {
    const path = join(directory, `${index}.json`);
    if (content !== undefined) writeFileSync(path, JSON.stringify(content));
    return path;
  });
  const child = spawn(process.execPath, [join(ci, program), ...paths], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code]: unknown[] = await once(child, 'close');
  return { code, output };
}

const reportOf = (testResults: unknown) => testResults && { testResults };

describe('a CI run', () => {
  const passed = { name: 'a', status: 'passed', assertionResults: [{ status: 'passed' }] };
  const failed = { name: 'b', status: 'failed', assertionResults: [{ status: 'failed' }] };
  const broken = { name: 'c', status: 'failed', assertionResults: [] };
  const skipped = {
    name: 'd',
    status: 'passed',
    assertionResults: [{ status: 'skipped', fullName: 'a page (needs a stack)' }],
  };

  it.each([
    ['all passed', [[passed]], { code: 0, output: '1 passed, 0 failed\n' }],
    [
      'a failed test and a file that could not be loaded',
      [[passed, failed, broken]],
      { code: 1, output: '1 passed, 2 failed\n' },
    ],
    [
      'a skipped test, which is named',
      [[passed, skipped]],
      { code: 0, output: 'skipped: a page (needs a stack)\n1 passed, 0 failed\n' },
    ],
    [
      'a failed file that passes in its second run as flaky',
      [[passed, failed], [{ ...passed, name: 'b' }]],
      { code: 0, output: 'flaky: b\n2 passed, 0 failed\n' },
    ],
    [
      'three flaky files as a failed run',
      [
        [passed, failed, broken, { ...failed, name: 'e' }],
        [
          { ...passed, name: 'e' },
          { ...passed, name: 'b' },
          { ...passed, name: 'c' },
        ],
      ],
      {
        code: 1,
        output:
          'failed: at most 1 file may be flaky (found 3)\nflaky: b\nflaky: c\nflaky: e\n4 passed, 0 failed\n',
      },
    ],
    [
      'a file that fails twice',
      [[passed, failed], [failed]],
      { code: 1, output: '1 passed, 1 failed\n' },
    ],
    ['no report at all', [undefined], { code: 1, output: '0 passed, 1 failed\n' }],
    [
      'no second report',
      [[passed, failed], undefined],
      { code: 1, output: '0 passed, 1 failed\n' },
    ],
  ])('totals %s', async (_name, reports, expected) => {
    expect(await runOn('total.mjs', ...reports.map(reportOf))).toEqual(expected);
  });

  it.each([
    ['the files that failed', [passed, failed, broken, skipped], 'b\nc\n'],
    ['none when all passed', [passed], ''],
    [
      'none of more than a stall explains',
      Array.from({ length: 9 }, () => ({ ...failed })).map((file, index) => ({
        ...file,
        name: `${index}`,
      })),
      '',
    ],
    ['none without a report', undefined, ''],
  ])('runs again %s', async (_name, report, expected) => {
    expect((await runOn('failed.mjs', reportOf(report))).output).toBe(expected);
  });

  it('names files whose CPU grew by more than half and a second, and counts unrecorded files', async () => {
    const cost = (cpuMs: number) => ({ cpuMs, wallMs: 1 });
    const costs = { grown: cost(9000), noise: cost(900), same: cost(14_000), added: cost(5000) };
    const recorded = { grown: cost(5000), noise: cost(100), same: cost(10_000), gone: cost(1) };
    expect(await runOn('costs.mjs', costs, recorded)).toEqual({
      code: 0,
      output:
        'uses more CPU: grown (9.0 s, recorded 5.0 s)\nnot in the recorded costs: 1 test files\n',
    });
  });
});
