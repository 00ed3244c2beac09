import { join, resolve } from 'node:path';
import { mkdirSync, rmSync } from 'node:fs';
import { dieWithParent, launch, untilReady, type Running } from './running.ts';
import { makeTemporaryDirectory } from './temporary-directory.ts';
import { findTemporalCli } from './temporal-cli.ts';

export interface TemporalOptions {
  /** Where workflows are kept across restarts; null keeps them in memory. */
  dataDir: string | null;
  port: number;
  /** Where the web UI listens; null starts none. */
  uiPort: number | null;
  /** Where the web UI has sealed payloads opened; null or absent: nowhere. */
  codecEndpoint?: string | null;
  /** Default `default`. */
  namespace?: string;
  /** The CLI to run. Default: found, or installed on first use. */
  executable?: string;
  /** Where the server's output goes. Default `<dataDir>/temporal.log`. */
  logPath?: string;
}

export interface RunningTemporal extends Running {
  /** `127.0.0.1:<port>`, for gRPC. */
  address: string;
  namespace: string;
  uiUrl: string | null;
}

/**
 * The server hands out tasks at most this often per second and shard, and the development server
 * has one shard: the default of 20 quantises every task to 50 ms. With these a job's p50 went from
 * 100 ms to 26–32 ms (2 cores, in memory).
 */
const pollRates = ['transfer', 'timer', 'outbound', 'visibility'].map(
  (queue) => `history.${queue}ProcessorMaxPollRPS=1000`,
);
/** Settings of the server, `name=value`. */
const dynamicConfig = [
  ...pollRates,
  // Long polls count against this limit; the default of 1,200 is one busy caller.
  'frontend.namespaceCount=10000',
  // Fairness keys (one per organization) are ignored without it.
  'matching.enableFairness=true',
];

/**
 * SQLite's default journal costs several waits for the disk per commit; the write-ahead log costs one
 * and is as durable with `synchronous` full. An empty workflow at 16 callers: 12 → 28 per second
 * (docs/performance.md).
 */
const fileSettings = ['journal_mode=wal', 'synchronous=full'];

/**
 * Starts a Temporal development server on the loopback interface and returns when its namespace
 * answers. Search attributes are registered by the processes that use them, as on any server.
 * @throws Error with the end of the server's log when it does not come up.
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
    // In memory there is nothing to close properly, which takes the server a second.
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
 * Asks a Temporal server for a namespace.
 * @throws Error when the server cannot be reached or does not know the namespace.
 */
export async function probeTemporal(address: string, namespace: string): Promise<void> {
  // Loaded here, where the server needs half a second anyway: the client takes as long to load.
  const { Connection } = await import('@temporalio/client');
  const connection = await Connection.connect({ address, connectTimeout: 2_000 });
  try {
    await connection.workflowService.describeNamespace({ namespace });
  } finally {
    await connection.close();
  }
}
