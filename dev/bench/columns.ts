/** What is measured beside each other, each in processes that live only while it is its turn. */
import { join, resolve } from 'node:path';
import { startDriven } from './driven-process.ts';
import { runGatewayLoad } from './gateway-jobs.ts';
import { startGateway, type Medium } from './gateway.ts';
import type { LoadResult, OpenLoad } from './open-loop.ts';
import { installPeer } from './peers/install.ts';
import type { Servers } from './servers.ts';

/** The kinds of columns; another checkout's gateway is `gateway@its-folder`. */
export const columnKinds = ['gateway', 'bare', 'floor', 'floor4', 'dbos'] as const;

/** One thing to measure. */
export interface Column {
  name: string;
  /** Starts its processes. */
  open: () => Promise<OpenColumn>;
}

/** A column at work. */
export interface OpenColumn {
  /** The processes that work for it, without provider and load generator. */
  pids: Record<string, number>;
  /** Runs a load, and returns when its jobs have ended. */
  run: (load: OpenLoad) => Promise<LoadResult>;
  stop: () => Promise<void>;
}

interface Wanted {
  columns: readonly string[];
  medium: Medium;
  /** Of the gateway: its processes and more environment. */
  apis: number;
  workers: number;
  env: Record<string, string>;
  report: (line: string) => void;
}

/** The wanted columns; DBOS is left out where npm cannot install it. */
export function chooseColumns(servers: Servers, wanted: Wanted): Column[] {
  return wanted.columns.flatMap((name, index): Column[] => {
    const [kind, checkout] = name.split('@');
    if (kind === 'gateway') {
      const variant = {
        name: `gateway-${index}`,
        checkout: checkout === undefined ? null : resolve(checkout),
        apis: wanted.apis,
        workers: wanted.workers,
        env: wanted.env,
      };
      return [{ name, open: () => openGateway(servers, { ...variant, medium: wanted.medium }) }];
    }
    if (kind === 'dbos') return dbosColumn(servers, wanted.report);
    return [{ name, open: () => openBare(servers, name) }];
  });
}

async function openGateway(
  servers: Servers,
  { medium, ...variant }: Parameters<typeof startGateway>[1] & { medium: Medium },
): Promise<OpenColumn> {
  const gateway = await startGateway(servers, variant);
  const { postgres, temporal } = servers.pids;
  const { databaseUrl } = servers.plan;
  return {
    pids: { temporal, ...gateway.pids, postgres },
    run: (load) => runGatewayLoad(gateway, { ...load, medium, databaseUrl }),
    stop: gateway.stop,
  };
}

async function openBare(servers: Servers, way: string): Promise<OpenColumn> {
  const bare = await startDriven(servers, { name: 'bare', script: 'bare/main.ts' });
  return {
    pids: { temporal: servers.pids.temporal, worker: bare.pid },
    run: (load) => bare.run(way, load),
    stop: bare.stop,
  };
}

function dbosColumn(servers: Servers, report: (line: string) => void): Column[] {
  let manifest: string;
  try {
    manifest = join(installPeer('dbos'), 'package.json');
  } catch (error) {
    report(`dbos is left out, npm could not install it: ${String(error)}`);
    return [];
  }
  const program = { name: 'dbos', script: 'dbos/main.ts', env: { DBOS_MANIFEST: manifest } };
  const open = async (): Promise<OpenColumn> => {
    const dbos = await startDriven(servers, program);
    return {
      pids: { worker: dbos.pid, postgres: servers.pids.postgres },
      run: (load) => dbos.run('dbos', load),
      stop: dbos.stop,
    };
  };
  return [{ name: 'dbos', open }];
}
