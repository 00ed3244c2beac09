/** A process that cannot start prints one sentence and ends. */
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { runProgram } from '../harness/programs.ts';

const gateway = useGateway({ settled: 'last' });

/** Runs a process until it ends. */
async function start(script: 'api' | 'worker', env: Record<string, string>) {
  const settings = { ...gateway.env, API_PORT: '0', ...env };
  const { status, stderr } = await runProgram(`${script}/main.ts`, [], settings);
  return { code: status, lines: stderr.trim().split('\n') };
}

describe.each(['api', 'worker'] as const)('%s', (script) => {
  it('reports that Postgres is unreachable, and its address', async () => {
    const nowhere = { DATABASE_URL: 'postgres://gateway:hidden-word@127.0.0.1:1/gateway' };
    expect(await start(script, nowhere)).toEqual({
      code: 1,
      lines: [
        `${script}: Postgres at 127.0.0.1:1 cannot be reached: connect ECONNREFUSED 127.0.0.1:1`,
      ],
    });
  });

  it('reports that the database is not migrated', async () => {
    const empty = gateway.database.url.replace(/\/[^/]*$/, '/postgres');
    expect(await start(script, { DATABASE_URL: empty })).toEqual({
      code: 1,
      lines: [`${script}: the database has no schema: run \`npm run migrate\` first`],
    });
  });

  const certificate = { TEMPORAL_TLS_CERT_PATH: '/dev/null' };
  it.each([
    ['STORAGE_DIR', '/dev/null/x', {}, "ENOTDIR: not a directory, mkdir '/dev/null/x/spool'"],
    [
      'TEMPORAL_TLS_KEY_PATH',
      '/dev/null/key',
      certificate,
      "ENOTDIR: not a directory, open '/dev/null/key'",
    ],
  ])('reports that the path %s cannot be used', async (name, path, env, reason) => {
    expect(await start(script, { ...env, [name]: path })).toEqual({
      code: 1,
      lines: [expect.stringContaining(`configuration: ${name} is wrong: ${reason}`)],
    });
  });
});

describe('the API', () => {
  it('reports that its port is in use', async () => {
    const taken = createServer();
    await once(taken.listen(0, '127.0.0.1'), 'listening');
    const { port } = taken.address() as AddressInfo;
    const ended = await start('api', { API_HOST: '127.0.0.1', API_PORT: String(port) });
    taken.close();
    const line = `api: listen EADDRINUSE: address already in use 127.0.0.1:${port}`;
    expect(ended).toEqual({ code: 1, lines: [line] });
  });
});
