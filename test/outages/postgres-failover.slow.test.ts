/** A pool and a listener follow a real failover; TLS to a server that requires it. */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { sql } from 'slonik';
import { z } from 'zod';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../dev/stack/free-port.ts';
import { startPostgres } from '../../dev/stack/postgres.ts';
import { choosePostgresAccount, takeOwnership } from '../../dev/stack/postgres-account.ts';
import { command, openDatabase, isDatabaseUnavailable } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { migrate } from '../../platform/migrations.ts';
import { openListener } from '../../platform/postgres-notifications.ts';
import { checkReadiness, databaseChecks } from '../../process/readiness.ts';
import { newFolder } from '../harness/folders.ts';
import { startPostgresProxy } from '../harness/postgres-proxy.ts';
import { until, untilHolds } from '../harness/until.ts';

const logger = createLogger('test', 'silent');
const password = 'p';

/** Starts a primary with a table, and a standby that follows it. */
async function startPair() {
  const folder = newFolder();
  const [dataDir, standbyDir] = [join(folder, 'primary'), join(folder, 'standby')];
  const common = { password, durable: false };
  const [primaryPort, standbyPort] = [await freePort(), await freePort()];
  const first = await startPostgres({ ...common, dataDir, port: primaryPort });
  const client = new Client({ connectionString: first.url });
  await client.connect();
  await client.query('CREATE TABLE entry (id integer)');
  await client.end();
  await first.stop();
  cpSync(dataDir, standbyDir, { recursive: true });
  chmodSync(standbyDir, 0o700);
  writeFileSync(join(standbyDir, 'standby.signal'), '');
  const primary = await startPostgres({ ...common, dataDir, port: primaryPort });
  const primary_conninfo = `host=127.0.0.1 port=${primaryPort} user=postgres password=${password}`;
  const settings = { primary_conninfo };
  const standby = await startPostgres({
    ...common,
    dataDir: standbyDir,
    port: standbyPort,
    settings,
  });
  onTestFinished(async () => {
    await Promise.all([primary.stop(), standby.stop()]);
  });
  return { primary, standby };
}

it('a standby that takes over is read-only until it is promoted, and then used without a restart', async () => {
  const { primary, standby } = await startPair();
  const way = await startPostgresProxy(primary.url);
  onTestFinished(() => way.close());
  const pool = await openDatabase({ url: way.url, poolMax: 4, logger });
  onTestFinished(() => pool.end());
  const received: string[] = [];
  const notify = (channel: string, payload: string) =>
    pool.query(command`SELECT pg_notify(${channel}, ${payload})`);
  const listener = await openListener({
    url: way.url,
    channel: 'news',
    notify,
    receive: (payload) => received.push(payload),
    onInterrupt: () => {},
    silentMessage: 'silent',
    logger,
  });
  onTestFinished(() => listener.close());
  const write = (id: number) => pool.query(command`INSERT INTO entry VALUES (${id})`);
  const isReady = async () =>
    (await checkReadiness({ required: databaseChecks(pool), optional: {} })).ready;
  await Promise.all([write(1), write(2)]);
  expect(await isReady()).toBe(true);

  const count = sql.type(z.object({ count: z.number() }))`SELECT count(*)::integer FROM entry`;
  way.leadTo(standby.url);
  way.cut();
  await way.mend();
  await until(() =>
    pool.oneFirst(count).then(
      (rows) => rows === 2,
      () => false,
    ),
  );
  const failure = await write(3).catch((error: unknown) => error);
  expect(isDatabaseUnavailable(failure)).toBe(true);
  expect(await isReady()).toBe(false);

  const client = new Client({ connectionString: standby.url });
  await client.connect();
  await client.query('SELECT pg_promote()');
  await client.end();
  await until(() =>
    write(4).then(
      () => true,
      () => false,
    ),
  );
  await untilHolds(async () => {
    await notify('news', 'promoted');
    expect([await isReady(), listener.isListening(), received]).toEqual([
      true,
      true,
      expect.arrayContaining(['promoted']),
    ]);
  });
});

describe('a server that requires TLS', () => {
  it('is reached as its URL says, by the pool as by the migrations', async () => {
    const folder = newFolder();
    const dataDir = join(folder, 'data');
    const [key, certificate] = [join(folder, 'server.key'), join(folder, 'server.crt')];
    const request =
      'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost' +
      ` -addext subjectAltName=DNS:localhost -keyout ${key} -out ${certificate}`;
    execFileSync('openssl', request.split(' '), { stdio: 'ignore' });
    chmodSync(folder, 0o755);
    chmodSync(key, 0o600);
    takeOwnership(key, choosePostgresAccount({ program: process.execPath, dataDir: folder }));
    const port = await freePort();
    const settings = { ssl: 'on', ssl_cert_file: certificate, ssl_key_file: key };
    const server = await startPostgres({ dataDir, port, password, durable: false, settings });
    onTestFinished(() => server.stop());
    // Connections without TLS are rejected from now on.
    const rules = readFileSync(join(dataDir, 'pg_hba.conf'), 'utf8').replaceAll(
      /^host /gm,
      'hostssl ',
    );
    writeFileSync(join(dataDir, 'pg_hba.conf'), rules);
    const reload = new Client({ connectionString: server.url });
    await reload.connect();
    await reload.query('SELECT pg_reload_conf()');
    await reload.end();

    const url = (host: string, query: string) =>
      `postgres://postgres:${password}@${host}:${port}/gateway?${query}`;
    /** Returns the failures of the migrations and of the pool; null for a connection. */
    async function open(target: string): Promise<(string | null)[]> {
      const connect = async () => {
        const pool = await openDatabase({ url: target, poolMax: 2, logger });
        await pool.query(command`SELECT 1`);
        await pool.end();
      };
      return Promise.all(
        [() => migrate(target), connect].map((run) =>
          run().then(
            () => null,
            (error: unknown) => String(error),
          ),
        ),
      );
    }
    const trust = `sslrootcert=${certificate}`;
    for (const query of ['prefer', 'require', 'verify-ca', 'verify-full']) {
      expect(await open(url('localhost', `sslmode=${query}&${trust}`))).toEqual([null, null]);
    }
    expect(await open(url('127.0.0.1', 'sslmode=no-verify'))).toEqual([null, null]);
    for (const [host, query, reason] of [
      ['localhost', '', /no encryption/],
      ['localhost', 'sslmode=disable', /no encryption/],
      ['localhost', 'sslmode=require', /self.signed/],
      ['127.0.0.1', `sslmode=verify-full&${trust}`, /altnames/],
    ] as const) {
      const reasons = await open(url(host, query));
      expect(reasons).toEqual([expect.stringMatching(reason), expect.stringMatching(reason)]);
    }
  });
});
