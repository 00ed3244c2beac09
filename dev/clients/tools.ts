/** Installs and runs third-party programs that generate, pack and check the clients. */
import { execFile, type ExecFileOptions } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { installNpm, installPython } from '../stack/tools.ts';

const execute = promisify(execFile);

/**
 * Runs a program, and waits until it ends. The message of a failure ends with the program's output, because Maven
 * prints its errors there.
 */
export async function run(
  program: string,
  words: readonly string[],
  options: ExecFileOptions = {},
) {
  try {
    return await execute(program, words, { ...options, encoding: 'utf8' });
  } catch (error) {
    if (error instanceof Error && 'stdout' in error) {
      error.message += `\n${String(error.stdout).slice(-4000)}`;
    }
    throw error;
  }
}

/** Path of the project's root, ending with a slash. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

/** Installs openapi-typescript. Returns the path of its script. */
export async function installOpenapiTypescript(): Promise<string> {
  // It needs the old TypeScript compiler, written in JavaScript, which the project does not use.
  const dependencies = { 'openapi-typescript': '7.13.0', typescript: '5.9.3' };
  const modules = await installNpm('npm', { dependencies });
  return join(modules, 'openapi-typescript', 'bin', 'cli.js');
}

/** Installs the Python programs that generate, pack and check the Python client. Returns the folder with their commands. */
export function installPythonCommands(): Promise<string> {
  return installPython('python', [
    'datamodel-code-generator==0.89.0',
    'build==1.6.1',
    'hatchling==1.33.0',
    'mypy==2.4.1',
    'httpx==0.28.1',
  ]);
}
