/** Programs of others that the clients are made with. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { installNpm, installPython } from '../stack/tools.ts';

/** Runs a program to its end. */
export const run = promisify(execFile);

/** The project, with a slash at its end. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

/** The command of openapi-typescript, for Node. */
export async function openapiTypescript(): Promise<string> {
  // It needs a TypeScript whose compiler is written in JavaScript; ours is not.
  const dependencies = { 'openapi-typescript': '7.13.0', typescript: '5.9.3' };
  const modules = await installNpm('npm', { dependencies });
  return join(modules, 'openapi-typescript', 'bin', 'cli.js');
}

/** The folder of Python's commands, with what makes, packs and checks the Python client. */
export function pythonCommands(): Promise<string> {
  return installPython('python', [
    'datamodel-code-generator==0.89.0',
    'build==1.6.1',
    'hatchling==1.33.0',
    'mypy==2.4.1',
    'httpx==0.28.1',
  ]);
}
