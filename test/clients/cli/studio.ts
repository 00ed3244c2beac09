/** Runs the `studio` command as a separate process, as a user does. */
import { runProgram, type Ended } from '../../harness/programs.ts';

/** Splits a command line into words; double quotes join words, and single quotes stay. */
const splitWords = (line: string): string[] =>
  (line.match(/(?:"[^"]*"|[^\s"])+/g) ?? []).map((word) => word.replaceAll('"', ''));

/** Runs `studio` with a command line and only this environment. */
export function studio(line: string | string[], env: Record<string, string>): Promise<Ended> {
  const args = typeof line === 'string' ? splitWords(line) : line;
  return runProgram('clients/cli/main.ts', args, { DATA_DIR: '/nonexistent', ...env });
}
