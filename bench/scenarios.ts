/** What is measured: each scenario runs jobs in a closed loop and names the processes it pays for. */
import { join } from 'node:path';
import { runClosedLoop } from './closed-loop.ts';
import { openDirectClient } from './direct.ts';
import { startGateway, type Gateway, type Variant } from './gateway.ts';
import { installPeer } from './peers/install.ts';
import { startDriven } from './driven-process.ts';
import type { Scenario } from './measurement.ts';
import type { Servers } from './servers.ts';

/** The kinds of scenarios; the first two are measured for every variant of the gateway. */
export const scenarioKinds = [
  'studio-sync',
  'studio-async',
  'bare',
  'noop',
  'dbos',
  'direct',
] as const;
/** See `scenarioKinds`. */
export type ScenarioKind = (typeof scenarioKinds)[number];

/** Scenarios with the processes behind them. */
export interface OpenScenarios {
  scenarios: Scenario[];
  gateways: Map<string, Gateway>;
  stop: () => Promise<void>;
}

interface Opening {
  kinds: readonly string[];
  /** Adds a scenario, if it is wanted. */
  add: (scenario: Scenario) => void;
  /** Remembers what ends with the run. */
  stops: (() => Promise<void>)[];
  report: (line: string) => void;
}

interface Wanted {
  kinds: readonly ScenarioKind[];
  variants: readonly Variant[];
  report: (line: string) => void;
}

/** Starts what the wanted scenarios need. */
export async function openScenarios(servers: Servers, wanted: Wanted): Promise<OpenScenarios> {
  const stops: (() => Promise<void>)[] = [];
  const scenarios: Scenario[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(stops.map((end) => end()));
  };
  const opening: Opening = {
    kinds: wanted.kinds,
    stops,
    report: wanted.report,
    add: (scenario) => {
      if (opening.kinds.includes(scenario.kind)) scenarios.push(scenario);
    },
  };
  try {
    const gateways = await openGateways(servers, opening, wanted.variants);
    await openBare(servers, opening);
    await openDbos(servers, opening);
    if (wanted.kinds.includes('direct')) {
      const direct = await openDirectClient(servers);
      stops.push(direct.stop);
      const { sandbox } = servers.pids;
      opening.add({ kind: 'direct', name: 'direct', run: loopOf(direct.job), pids: { sandbox } });
    }
    return { scenarios, gateways, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function loopOf(job: () => Promise<void>): Scenario['run'] {
  return (load) => runClosedLoop(job, load);
}

async function openGateways(
  servers: Servers,
  { kinds, add, stops }: Opening,
  variants: readonly Variant[],
): Promise<Map<string, Gateway>> {
  const gateways = new Map<string, Gateway>();
  const isWanted = kinds.includes('studio-sync') || kinds.includes('studio-async');
  for (const variant of isWanted ? variants : []) {
    // Processes that start side by side slow each other.
    const gateway = await startGateway(servers, variant);
    stops.push(gateway.stop);
    gateways.set(variant.label, gateway);
    const pids = { ...gateway.pids, ...servers.pids };
    const suffix = variants.length > 1 ? `/${variant.label}` : '';
    for (const [kind, job] of [
      ['studio-sync', gateway.sync],
      ['studio-async', gateway.async],
    ] as const) {
      add({ kind, name: `${kind}${suffix}`, run: loopOf(job), pids });
    }
  }
  return gateways;
}

async function openBare(servers: Servers, { kinds, add, stops }: Opening): Promise<void> {
  if (!kinds.includes('bare') && !kinds.includes('noop')) return;
  const bare = await startDriven(servers, { name: 'bare', script: 'bare/main.ts' });
  stops.push(bare.stop);
  const pids = { bare: bare.pid, ...servers.pids };
  for (const kind of ['bare', 'noop'] as const) {
    add({ kind, name: kind, run: (load) => bare.run(kind, load), pids });
  }
}

/** Left out where npm cannot install it: everything else is measured all the same. */
async function openDbos(servers: Servers, { kinds, add, stops, report }: Opening): Promise<void> {
  if (!kinds.includes('dbos')) return;
  let manifest: string;
  try {
    manifest = join(installPeer('dbos'), 'package.json');
  } catch (error) {
    report(`dbos is left out, npm could not install it: ${String(error)}`);
    return;
  }
  const env = { DBOS_MANIFEST: manifest };
  const dbos = await startDriven(servers, { name: 'dbos', script: 'dbos/main.ts', env });
  stops.push(dbos.stop);
  const { postgres, sandbox } = servers.pids;
  const pids = { dbos: dbos.pid, postgres, sandbox };
  add({ kind: 'dbos', name: 'dbos', run: (load) => dbos.run('dbos', load), pids });
}
