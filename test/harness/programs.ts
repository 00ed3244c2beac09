/** Programs of the project, run as processes of their own. */
import { execFile, type ExecFileOptions } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { compileCache } from '../../dev/stack/node-service.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Exit status of a program, -1 if it was killed, and its output. */
export interface Ended {
  status: number;
  stdout: string;
  stderr: string;
}

/** Runs a program to its end. */
export function runFile(
  file: string,
  args: readonly string[],
  options: ExecFileOptions,
): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(file, args, { ...options, encoding: 'utf8' }, (error, stdout, stderr) => {
      const status = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ status, stdout, stderr });
    });
  });
}

/** Runs a TypeScript program, whose environment is the PATH and these variables. */
export const runProgram = (
  script: string,
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Ended> =>
  runFile(process.execPath, [script, ...args], {
    cwd: root,
    env: { PATH: process.env['PATH'], ...compileCache, ...env },
    timeout: 120_000,
  });
