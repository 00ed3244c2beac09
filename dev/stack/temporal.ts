import { join, resolve } from 'node:path';
import { mkdirSync, rmSync } from 'node:fs';
import { dieWithParent, launch, untilReady, type Running } from './running.ts';
import { makeTemporaryDirectory } from './temporary-directory.ts';
import { findTemporalCli } from './temporal-cli.ts';

export interface TemporalOptions {
  /** File of the workflows, kept across restarts; null: in memory. */
  dataDir: string | null;
  port: number;
  /** Port of the web UI; null: no web UI. */
  uiPort: number | null;
  /** URL at which the web UI decrypts payloads; null or absent: none. */
  codecEndpoint?: string | null;
  /** Default `default`. */
  namespace?: string;
  /** CLI to run. Default: the one found, or installed on first use. */
  executable?: string;
  /** Path of the server's log. Default `<dataDir>/temporal.log`. */
  logPath?: string;
}

export interface RunningTemporal extends Running {
  /** gRPC address, `127.0.0.1:<port>`. */
  address: string;
  namespace: string;
  uiUrl: string | null;
}

/**
 * Limits of the rate at which the server dispatches tasks, per shard. The development server has
 * one shard, and the default of 20 per second delays every task by up to 50 ms. With these limits
 * the p50 of a job fell from 100 ms to 26–32 ms (2 cores, in memory).
 */
const pollRates = ['transfer', 'timer', 'outbound', 'visibility'].map(
  (queue) => `history.${queue}ProcessorMaxPollRPS=1000`,
);
/** Settings of the server as `name=value`. */
const dynamicConfig = [
  ...pollRates,
  // Long polls count against this limit; one busy caller reaches the default of 1,200.
  'frontend.namespaceCount=10000',
  // Without this setting, fairness keys (one per organization) are ignored.
  'matching.enableFairness=true',
];

/**
 * SQLite's default journal waits for the disk several times per commit; the write-ahead log waits
 * once and is as durable with `synchronous` full. Empty workflows with 16 callers: 12 per second
 * before, 28 now (docs/performance.md).
 */
const fileSettings = ['journal_mode=wal', 'synchronous=full'];

/**
 * Starts a Temporal development server on the loopback interface and returns when its namespace
 * exists. The processes that use search attributes register them, as on any server.
 * @throws Error with the end of the server's log if it does not start
 */
export async function startTemporal(options: TemporalOptions): Promise<RunningTemporal> {
  const { dataDir, port, uiPort, codecEndpoint = null, namespace = 'default' } = options;
  const temporary = dataDir === null ? makeTemporaryDirectory('temporal') : null;
  const directory = resolve(dataDir ?? temporary ?? '');
  mkdirSync(directory, { recursive: true });
  const removeTemporary = () => {
    if (temporary !== null) rmSync(temporary, { recursive: true, force: true });
  };
  const logPath = options.logPath ?? join(directory, 'temporal.log');
  try {
    const cli = options.executable ?? (await findTemporalCli());
    const [command = '', ...args] = [
      ...dieWithParent('SIGTERM'),
      cli,
      'server',
      'start-dev',
      '--ip',
      '127.0.0.1',
      '--port',
      String(port),
      ...(uiPort === null ? ['--headless'] : ['--ui-port', String(uiPort)]),
      '--ui-disable-news-fetch',
      ...(codecEndpoint === null ? [] : ['--ui-codec-endpoint', codecEndpoint]),
      '--namespace',
      namespace,
      '--log-level',
      'warn',
      ...(dataDir === null ? [] : fileFlags(join(directory, 'temporal.db'))),
      ...dynamicConfig.flatMap((setting) => ['--dynamic-config-value', setting]),
    ];
    // A server in memory has nothing to close, and a clean stop takes a second.
    const stopSignal = dataDir === null ? 'SIGKILL' : 'SIGTERM';
    const server = await launch({ command, args, logPath, stopSignal });
    const address = `127.0.0.1:${port}`;
    const ask = () => probeTemporal(address, namespace);
    await untilReady(server, ask, { name: 'Temporal', logPath });
    return {
      ...server,
      stop: () => server.stop().finally(removeTemporary),
      address,
      namespace,
      uiUrl: uiPort === null ? null : `http://127.0.0.1:${uiPort}`,
    };
  } catch (error) {
    removeTemporary();
    throw error;
  }
}

function fileFlags(path: string): string[] {
  return ['--db-filename', path, ...fileSettings.flatMap((pragma) => ['--sqlite-pragma', pragma])];
}

/**
 * Describes a namespace of a Temporal server.
 * @throws Error if the server is unreachable or the namespace is unknown
 */
export async function probeTemporal(address: string, namespace: string): Promise<void> {
  // Imported here, because loading the client takes half a second, as does the start of the server.
  const { Connection } = await import('@temporalio/client');
  const connection = await Connection.connect({ address, connectTimeout: 2_000 });
  try {
    await connection.workflowService.describeNamespace({ namespace });
  } finally {
    await connection.close();
  }
}
