import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../dev/stack/free-port.ts';
import { startPostgres } from '../../dev/stack/postgres.ts';

const isRoot = process.getuid?.() === 0;

/** Puts failing stand-ins for these commands first on the PATH. */
function forbid(...commands: string[]): void {
  const directory = mkdtempSync(join(tmpdir(), 'path-'));
  const path = process.env['PATH'];
  for (const command of commands) {
    writeFileSync(join(directory, command), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  }
  process.env['PATH'] = `${directory}:${path}`;
  onTestFinished(() => {
    process.env['PATH'] = path;
    rmSync(directory, { recursive: true });
  });
}

function closedDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'closed-'));
  chmodSync(directory, 0o700);
  mkdirSync(join(directory, 'inner'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return join(directory, 'inner', 'postgres');
}

async function startAndAsk(dataDir: string): Promise<string> {
  const password = 'pass-word';
  const server = await startPostgres({ dataDir, password, port: await freePort(), durable: false });
  try {
    const client = new Client({ connectionString: server.url });
    await client.connect();
    await client.query('CREATE TABLE IF NOT EXISTS t (); CHECKPOINT');
    await client.end();
  } finally {
    await server.stop();
  }
  return statSync(dataDir).uid === 0 ? 'root' : 'system user';
}

describe.runIf(isRoot)('Postgres that root starts in a private directory', () => {
  it('runs in a user namespace, and as a system user where that is forbidden', async () => {
    const dataDir = closedDirectory();
    const first = await startAndAsk(dataDir);
    forbid('unshare');
    expect(await startAndAsk(dataDir)).toBe('system user');
    // And a cluster made there is usable again from the first way.
    expect(['root', 'system user']).toContain(first);
  });

  it('creates a cluster as a system user', async () => {
    forbid('unshare');
    expect(await startAndAsk(closedDirectory())).toBe('system user');
  });

  it('explains the solution if neither way works', async () => {
    forbid('unshare', 'setpriv');
    await expect(startAndAsk(closedDirectory())).rejects.toThrow('as an ordinary user');
  });
});
