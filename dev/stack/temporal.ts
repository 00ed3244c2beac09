import { join, resolve } from 'node:path';
import { mkdirSync, rmSync } from 'node:fs';
import { dieWithParent, launch, untilReady, type Running } from './running.ts';
import { makeTemporaryDirectory } from './temporary-directory.ts';
import { findTemporalCli } from './temporal-cli.ts';

export interface TemporalOptions {
  /** Directory of the workflow database, which survives restarts. Null to keep it in memory. */
  dataDir: string | null;
  port: number;
  /** Port of the web UI. Null to start no web UI. */
  uiPort: number | null;
  /** URL where the web UI decrypts payloads, if they are encrypted. */
  codecEndpoint?: string | null;
  /** Namespace to create. Defaults to `default`. */
  namespace?: string;
  /** Path of the CLI. Defaults to the result of `findTemporalCli`. */
  executable?: string;
  /** Path of the server's log. Defaults to `<dataDir>/temporal.log`. */
  logPath?: string;
}

export interface RunningTemporal extends Running {
  /** gRPC address, `127.0.0.1:<port>`. */
  address: string;
  namespace: string;
  uiUrl: string | null;
}

/**
 * Limits on how many tasks per second the server dispatches per shard. The development server has
 * only one shard, so the default of 20 delays every task by up to 50 ms. With these limits, the p50
 * of a job fell from 100 ms to 26–32 ms (2 cores, in memory).
 */
const pollRates = ['transfer', 'timer', 'outbound', 'visibility'].map(
  (queue) => `history.${queue}ProcessorMaxPollRPS=1000`,
);
/** Settings of the server as `name=value`. */
const dynamicConfig = [
  ...pollRates,
  // Long polls count toward this limit. A single busy caller reaches the default of 1,200.
  'frontend.namespaceCount=10000',
  // Without this setting, fairness keys (one per organization) are ignored.
  'matching.enableFairness=true',
  // Number of failed attempts of a workflow task in a row after which the sweeper finds the workflow.
  // The default is 5. An attempt that fails like the one before takes as long as the time limit of
  // workflow tasks.
  'system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=2',
];

/**
 * SQLite settings. The default journal waits for the disk several times per commit. The write-ahead
 * log waits only once, and is as durable if `synchronous` is full. With 16 callers, this raised the
 * rate of empty workflows from 12 to 28 per second (docs/performance.md).
 */
const fileSettings = ['journal_mode=wal', 'synchronous=full'];

/**
 * Starts a Temporal development server on the loopback interface and returns when its namespace
 * exists. It does not register search attributes; the processes that use them do.
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
    // A clean stop takes a second, and a server in memory has nothing to save.
    const stopSignal = dataDir === null ? 'SIGKILL' : 'SIGTERM';
    const server = await launch({ command, args, logPath, stopSignal });
    const address = `127.0.0.1:${port}`;
    const check = () => probeTemporal(address, namespace);
    await untilReady(server, check, { name: 'Temporal', logPath });
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
 * Checks that a Temporal server has a namespace.
 * @throws Error if the server is unreachable or the namespace is unknown
 */
export async function probeTemporal(address: string, namespace: string): Promise<void> {
  // Imported here, because loading takes half a second, during which the server starts.
  const { Connection } = await import('@temporalio/client');
  const connection = await Connection.connect({ address, connectTimeout: 2_000 });
  try {
    await connection.workflowService.describeNamespace({ namespace });
  } finally {
    await connection.close();
  }
}
