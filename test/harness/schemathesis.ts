/** Schemathesis, from PyPI into `.cache/`: it reads the served description and tries to prove it wrong. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const version = '4.32.5';
const directory = fileURLToPath(new URL(`../../.cache/schemathesis-${version}`, import.meta.url));
const executable = `${directory}/bin/schemathesis`;

/** Installs it when it is missing. */
export async function installSchemathesis(): Promise<void> {
  if (existsSync(executable)) return;
  await run('python3', ['-m', 'venv', directory]);
  await run(`${directory}/bin/pip`, ['install', '--quiet', `schemathesis==${version}`]);
}

interface Wanted {
  url: string;
  key: string;
  examples: number;
  seed: string;
}

/** Runs it; `failed` when it found anything, `report` says what. */
export async function runSchemathesis(
  wanted: Wanted,
): Promise<{ failed: boolean; report: string }> {
  const args = [
    'run',
    `${wanted.url}/api/v1/openapi.json`,
    '-H',
    `Authorization: Bearer ${wanted.key}`,
    '--checks',
    'all',
    // Rules between fields (a parameter of another model) are not in a JSON schema; a method that
    // does not exist is answered 404, as any other path.
    '--exclude-checks',
    'positive_data_acceptance,unsupported_method',
    '--phases',
    'examples,coverage,fuzzing',
    '--max-examples',
    String(wanted.examples),
    '--seed',
    wanted.seed,
    '--request-timeout',
    '60',
    '--continue-on-failure',
    '--no-color',
  ];
  try {
    // It writes a cache of its own where it stands.
    const { stdout } = await run(executable, args, { cwd: directory, maxBuffer: 64 * 1024 * 1024 });
    return { failed: false, report: stdout };
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return { failed: true, report: `${stdout}\n${stderr}` };
  }
}
