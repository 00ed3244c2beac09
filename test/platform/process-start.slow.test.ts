/** A process that cannot start prints one sentence and ends. A process that cannot stop ends after a time limit. */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { startHttpServer } from '../harness/http-server.ts';
import { runFile, runProgram } from '../harness/programs.ts';

const gateway = useGateway({ settled: 'last' });

/** Runs a process until it ends. */
async function start(script: 'api' | 'worker', env: Record<string, string>) {
  const settings = { ...gateway.env, API_PORT: '0', ...env };
  const { status, stderr } = await runProgram(`${script}/main.ts`, [], settings);
  return { code: status, lines: stderr.trim().split('\n') };
}

const certificate = { TEMPORAL_TLS_CERT_PATH: '/dev/null' };

describe.each(['api', 'worker'] as const)('%s', (script) => {
  it('reports that Postgres is unreachable, and its address', async () => {
    const nowhere = { DATABASE_URL: 'postgres://gateway:hidden-word@127.0.0.1:1/gateway' };
    const line =
      'Postgres at 127.0.0.1:1 (DATABASE_URL) cannot be reached: connect ECONNREFUSED 127.0.0.1:1';
    expect(await start(script, nowhere)).toEqual({ code: 1, lines: [`${script}: ${line}`] });
  });

  it('reports that the database is not migrated', async () => {
    const empty = { DATABASE_URL: gateway.database.url.replace(/\/[^/]*$/, '/postgres') };
    const line = 'the database has no schema: run `npm run migrate` first';
    expect(await start(script, empty)).toEqual({ code: 1, lines: [`${script}: ${line}`] });
  });

  it.each([
    ['STORAGE_DIR', '/dev/null/x', {}, "mkdir '/dev/null/x/spool'"],
    ['TEMPORAL_TLS_KEY_PATH', '/dev/null/key', certificate, "open '/dev/null/key'"],
  ])('reports that the path %s cannot be used', async (name, path, env, reason) => {
    expect(await start(script, { ...env, [name]: path })).toEqual({
      code: 78,
      lines: [
        expect.stringContaining(
          `configuration: ${name} is wrong: ENOTDIR: not a directory, ${reason}`,
        ),
      ],
    });
  });
});

it('the API reports that its port is in use', async () => {
  const { port, close } = await startHttpServer(() => {});
  const ended = await start('api', { API_HOST: '127.0.0.1', API_PORT: String(port) });
  close();
  const line = `api: listen EADDRINUSE: address already in use 127.0.0.1:${port}`;
  expect(ended).toEqual({ code: 1, lines: [line] });
});

it('a process whose requests do not end is stopped', async () => {
  const program = `const { drainOnExit } = await import('./process/run-process.ts');
    drainOnExit(() => new Promise(() => {}), 50);
    setTimeout(() => {}, 60_000);
    process.kill(process.pid, 'SIGTERM');`;
  const args = ['--input-type=module', '--eval', program];
  expect((await runFile(process.execPath, args, {})).status).toBe(1);
});
