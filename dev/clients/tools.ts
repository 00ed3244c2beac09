/** Third-party programs that generate and pack the clients. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { installNpm, installPython } from '../stack/tools.ts';

/** Runs a program until it exits. */
export const run = promisify(execFile);

/** Path of the project, with a trailing slash. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

/** Returns the path of openapi-typescript's command. */
export async function openapiTypescript(): Promise<string> {
  // It needs a TypeScript compiler written in JavaScript, which the project's own version is not.
  const dependencies = { 'openapi-typescript': '7.13.0', typescript: '5.9.3' };
  const modules = await installNpm('npm', { dependencies });
  return join(modules, 'openapi-typescript', 'bin', 'cli.js');
}

/** Returns the folder of the Python commands that generate, pack and check the Python client. */
export function pythonCommands(): Promise<string> {
  return installPython('python', [
    'datamodel-code-generator==0.89.0',
    'build==1.6.1',
    'hatchling==1.33.0',
    'mypy==2.4.1',
    'httpx==0.28.1',
  ]);
}
