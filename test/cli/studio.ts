/** Runs the `studio` command as a separate process, as a user does. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { compileCache } from '../../dev/stack/node-service.ts';

const script = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));

/** Exit status and output of a command. */
export interface Run {
  status: number;
  stdout: string;
  stderr: string;
}

/** Runs `studio …args` with only this environment. */
export async function studio(args: string[], env: Record<string, string>): Promise<Run> {
  return new Promise((resolve) => {
    const options = {
      env: { DATA_DIR: '/nonexistent', ...compileCache, ...env },
      timeout: 120_000,
    };
    execFile(process.execPath, [script, ...args], options, (error, stdout, stderr) => {
      const status = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ status, stdout, stderr });
    });
  });
}
