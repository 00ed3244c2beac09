import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../../dev/stack/free-port.ts';
import { startPostgres, type PostgresOptions } from '../../../dev/stack/postgres.ts';
import { newFolder } from '../../harness/folders.ts';
import { commandLine, isAlive } from '../../../dev/stack/process-identity.ts';

async function start(options: Partial<PostgresOptions> = {}) {
  const defaults = { dataDir: null, port: await freePort(), durable: false };
  const server = await startPostgres({ ...defaults, ...options });
  onTestFinished(() => server.stop());
  return server;
}

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

const settings = `SELECT name, setting FROM pg_settings
  WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes') ORDER BY name`;

it('startPostgres for permanent data is durable, survives SIGKILL, ends a leftover server, and requires its password', async () => {
  const directory = newFolder();
  // Other users cannot enter it.
  expect(statSync(directory).mode & 0o777).toBe(0o700);
  const dataDir = join(directory, 'postgres');
  const options = { dataDir, password: 'pass-word', durable: true };
  const first = await start(options);
  const shown = (await query(first.url, settings)).map((row) => row['setting']);
  expect(shown).toEqual(['on', 'on', 'on']);
  await query(first.url, 'CREATE TABLE kept (n int)');
  await query(first.url, 'INSERT INTO kept VALUES (42)');
  first.kill();
  await first.exited;

  const second = await start(options);
  expect(await query(second.url, 'SELECT n FROM kept')).toEqual([{ n: 42 }]);

  // The second still runs; the third finds it by its lock file.
  const third = await start(options);
  expect(isAlive(second.pid)).toBe(false);
  expect(await query(third.url, 'SELECT n FROM kept')).toEqual([{ n: 42 }]);
  await third.stop();

  await expect(start({ ...options, password: 'wrong' })).rejects.toThrow('another password');
});

describe('startPostgres for a test run', () => {
  it('skips durability, requires its password, and leaves nothing behind', async () => {
    const server = await start({ settings: { full_page_writes: 'on' } });
    const [row] = await query(server.url, 'SHOW server_version');
    expect(row?.['server_version']).toMatch(/^18\./);
    expect(await query(server.url, settings)).toEqual([
      { name: 'fsync', setting: 'off' },
      { name: 'full_page_writes', setting: 'on' },
      { name: 'synchronous_commit', setting: 'off' },
    ]);

    const open = new URL(server.url);
    open.password = 'guess';
    await expect(query(open.href, 'SELECT 1')).rejects.toThrow('password authentication failed');

    const [, dataDir = ''] = / -D (\S+)/.exec(commandLine(server.pid)) ?? [];
    expect(existsSync(dataDir)).toBe(true);
    await server.stop();
    expect(isAlive(server.pid)).toBe(false);
    expect(existsSync(dirname(dataDir))).toBe(false);
  });

  it('detects another server on its port, and shows the end of the log', async () => {
    const { url } = await start();
    const port = Number(new URL(url).port);
    await expect(start({ port })).rejects.toThrow(/could not bind|Address already in use/);
  });
});

/** Puts failing replacements of these commands first on the PATH. */
function forbid(...commands: string[]): void {
  const directory = newFolder();
  const path = process.env['PATH'];
  for (const command of commands) {
    writeFileSync(join(directory, command), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  }
  process.env['PATH'] = `${directory}:${path}`;
  onTestFinished(() => {
    process.env['PATH'] = path;
  });
}

/** Starts Postgres once in a folder below one that only root may enter; returns the owner of its data. */
async function ownerOfData(closed = newFolder()): Promise<string> {
  mkdirSync(join(closed, 'inner'), { recursive: true });
  const dataDir = join(closed, 'inner', 'postgres');
  const server = await start({ dataDir, password: 'pass-word' });
  await query(server.url, 'CREATE TABLE IF NOT EXISTS t (); CHECKPOINT');
  await server.stop();
  return statSync(dataDir).uid === 0 ? 'root' : 'system user';
}

describe.runIf(process.getuid?.() === 0)('Postgres that root starts in a private directory', () => {
  it('runs in a user namespace, and as a system user where that is forbidden', async () => {
    const closed = newFolder();
    expect(['root', 'system user']).toContain(await ownerOfData(closed));
    forbid('unshare');
    expect(await ownerOfData(closed)).toBe('system user');
    // A new cluster.
    expect(await ownerOfData()).toBe('system user');
  });

  it('explains the solution if neither way works', async () => {
    forbid('unshare', 'setpriv');
    await expect(ownerOfData()).rejects.toThrow('as an ordinary user');
  });
});
