/** Programs of the project, run as processes of their own. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { compileCache } from '../../dev/stack/node-service.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Exit status of a program, -1 if it was killed, and its output. */
export interface Ended {
  status: number;
  stdout: string;
  stderr: string;
}

/** Runs a TypeScript program, whose environment is the PATH and these variables. */
export function runProgram(
  script: string,
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = {
      cwd: root,
      env: { PATH: process.env['PATH'], ...compileCache, ...env },
      timeout: 120_000,
    };
    execFile(process.execPath, [script, ...args], options, (error, stdout, stderr) => {
      const status = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ status, stdout, stderr });
    });
  });
}
