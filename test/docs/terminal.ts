/** A terminal that runs the commands of the documents. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileCache } from '../../dev/stack/node-service.ts';
import { runFile, type Ended } from '../harness/programs.ts';

interface Terminal {
  /** Working directory of the script. */
  directory: string;
  /** Project whose npm scripts are run. */
  project: string;
  env: Record<string, string>;
}

/** Time limit of a script. */
const timeoutMs = 240_000;

/**
 * Returns shell functions: `npm run studio` and others start without npm, which takes a second
 * each, and `curl` fails after an error response.
 */
function makePrelude(project: string): string {
  const { scripts } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const programs = ['studio', 'audit', 'replay', 'temporal'].map((name) => {
    const [, program] = / --without-dev (\S+)$/.exec(scripts[name] ?? '') ?? [];
    if (program === undefined) throw new Error(`npm run ${name} is no program of the project`);
    return `run:${name}) shift 2; [ "\${1:-}" != -- ] || shift; node "${join(project, program)}" "$@" ;;`;
  });
  return `curl() { command curl --fail-with-body "$@"; }
npm() {
  case "\${1:-}:\${2:-}" in
  ${programs.join('\n  ')}
  *) command npm "$@" ;;
  esac
}
temporal() { npm run temporal -- "$@"; }
`;
}

/** Runs a script of bash. */
export const runInTerminal = (
  script: string,
  { directory, project, env }: Terminal,
): Promise<Ended> =>
  runFile('bash', ['--norc', '-euo', 'pipefail', '-c', makePrelude(project) + script], {
    cwd: directory,
    timeout: timeoutMs,
    env: { PATH: process.env['PATH'], HOME: directory, ...compileCache, ...env },
  });
