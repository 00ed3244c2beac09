/** Programs of others that the clients are made with, each of one version, installed below `.cache/` when missing. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Runs a program to its end. */
export const run = promisify(execFile);

/** The project, with a slash at its end. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

/** It needs a TypeScript whose compiler is written in JavaScript; ours is not. */
const npmTools = ['openapi-typescript@7.13.0', 'typescript@5.9.3'];
const pythonTools = [
  'datamodel-code-generator==0.89.0',
  'build==1.6.1',
  'hatchling==1.33.0',
  'mypy==2.4.1',
  'httpx==0.28.1',
];

const installing = new Map<string, Promise<string>>();

/** A folder of `.cache/` that is made once, whoever asks at the same time, and again for other versions. */
function installed(...wanted: Parameters<typeof install>): Promise<string> {
  const [kind] = wanted;
  const begun = installing.get(kind) ?? install(...wanted);
  installing.set(kind, begun);
  return begun;
}

async function install(
  kind: string,
  tools: readonly string[],
  make: (directory: string) => Promise<unknown>,
): Promise<string> {
  const versions = createHash('sha256').update(tools.join()).digest('hex').slice(0, 12);
  const directory = join(root, '.cache', `${kind}-tools-${versions}`);
  const complete = join(directory, 'complete');
  if (!existsSync(complete)) {
    await mkdir(directory, { recursive: true });
    await make(directory);
    await writeFile(complete, '');
  }
  return directory;
}

/** The command of openapi-typescript, for Node. */
export async function openapiTypescript(): Promise<string> {
  const directory = await installed('npm', npmTools, async (cwd) => {
    await writeFile(join(cwd, 'package.json'), '{"private": true, "type": "module"}');
    await run('npm', ['install', '--no-save', '--no-audit', '--no-fund', ...npmTools], { cwd });
  });
  return join(directory, 'node_modules', 'openapi-typescript', 'bin', 'cli.js');
}

/** The folder of Python's commands, with those of `pythonTools`. */
export async function pythonCommands(): Promise<string> {
  const directory = await installed('python', pythonTools, async (cwd) => {
    await run('python3', ['-m', 'venv', cwd]);
    await run(join(cwd, 'bin', 'pip'), ['install', '--quiet', '--retries', '1', ...pythonTools]);
  });
  return join(directory, 'bin');
}
