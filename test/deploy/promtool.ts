/** Prometheus' own promtool, which evaluates the alert rules. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));

/** Runs unit tests of rules, from the project's folder. @throws Error with what promtool printed */
export type TestRules = (file: string) => Promise<string>;

/** Finds it, or installs it into `.cache`; returns why not where it cannot be had. @throws Error in CI instead */
export async function findPromtool(): Promise<TestRules | string> {
  try {
    const promtool = (await run('sh', [`${root}deploy/promtool.sh`])).stdout.trim();
    return async (file) => (await run(promtool, ['test', 'rules', file], { cwd: root })).stdout;
  } catch (error) {
    if (process.env['CI']) throw error;
    return `promtool cannot be had: ${String(error).slice(0, 200)}`;
  }
}
