/** A process that cannot start prints one sentence and ends. */
import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

/** Runs a process until it ends. */
function start(script: 'api' | 'worker', env: Record<string, string>) {
  return new Promise<{ code: number; lines: string[] }>((resolve) => {
    const main = fileURLToPath(new URL(`../../${script}/main.ts`, import.meta.url));
    const options = {
      env: { PATH: process.env['PATH'], ...gateway.env, API_PORT: '0', ...env },
    };
    execFile(process.execPath, [main], options, (error, _out, err) => {
      resolve({ code: error ? Number(error.code) : 0, lines: err.trim().split('\n') });
    });
  });
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

  it('reports that the database is not migrated, or too new', async () => {
    const empty = gateway.database.url.replace(/\/[^/]*$/, '/postgres');
    const { code, lines } = await start(script, { DATABASE_URL: empty });
    expect(code).toBe(1);
    expect(lines).toEqual([`${script}: the database has no schema: run \`npm run migrate\` first`]);
    await gateway.database.query(
      `INSERT INTO schema_migration (version, name, sha256) VALUES (9999, 'x', 'x')`,
    );
    try {
      expect(await start(script, {})).toEqual({
        code: 1,
        lines: [expect.stringMatching(/^\w+: the database has schema 9999, newer than this code/)],
      });
    } finally {
      await gateway.database.query('DELETE FROM schema_migration WHERE version = 9999');
    }
  });
});

describe.each(['api', 'worker'] as const)('%s with a path that cannot be used', (script) => {
  it.each([
    ['STORAGE_DIR', '/dev/null/x', /^ENOTDIR: not a directory, mkdir '.dev.null.x.spool'$/],
    ['TEMPORAL_TLS_KEY_PATH', '/dev/null/key', /^ENOTDIR: not a directory, open '.dev.null.key'$/],
  ])('reports %s', async (name, path, reason) => {
    const env = { TEMPORAL_TLS_CERT_PATH: '', [name]: path };
    if (name === 'TEMPORAL_TLS_KEY_PATH') env.TEMPORAL_TLS_CERT_PATH = '/dev/null';
    const { code, lines } = await start(script, env);
    expect([code, lines.length]).toEqual([1, 1]);
    const [, message = ''] = (lines[0] ?? '').split(`configuration: ${name} is wrong: `);
    expect(message).toMatch(reason);
  });
});

describe('the API', () => {
  it('reports that its port is in use', async () => {
    const taken = createServer();
    taken.listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const address = taken.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    const env = { API_HOST: '127.0.0.1', API_PORT: String(port) };
    const { code, lines } = await start('api', env);
    taken.close();
    expect(code).toBe(1);
    expect(lines).toEqual([`api: listen EADDRINUSE: address already in use 127.0.0.1:${port}`]);
  });
});
