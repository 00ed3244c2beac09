/** What is measured: each scenario runs jobs in a closed loop and names the processes it pays for. */
import { runClosedLoop, type Load, type LoopResult } from './closed-loop.ts';
import { openDirectClient } from './direct.ts';
import { startGateway, type Gateway, type Variant } from './gateway.ts';
import { startBareProcess } from './bare/process.ts';
import type { Servers } from './servers.ts';

/** The kinds of scenarios; the first two are measured for every variant of the gateway. */
export const scenarioKinds = ['studio-sync', 'studio-async', 'bare', 'noop', 'direct'] as const;
/** See `scenarioKinds`. */
export type ScenarioKind = (typeof scenarioKinds)[number];

/** One thing to measure. */
export interface Scenario {
  kind: ScenarioKind;
  /** The kind, and the variant's name when there are several. */
  name: string;
  run: (load: Load) => Promise<LoopResult>;
  /** The processes that work for it. */
  pids: Record<string, number>;
}

/** Scenarios with the processes behind them. */
export interface OpenScenarios {
  scenarios: Scenario[];
  gateways: Map<string, Gateway>;
  stop: () => Promise<void>;
}

interface Wanted {
  kinds: readonly ScenarioKind[];
  variants: readonly Variant[];
}

/** Starts what the wanted scenarios need. */
export async function openScenarios(servers: Servers, wanted: Wanted): Promise<OpenScenarios> {
  const stops: (() => Promise<void>)[] = [];
  const gateways = new Map<string, Gateway>();
  const scenarios: Scenario[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(stops.map((end) => end()));
  };
  const { postgres, temporal, sandbox } = servers.pids;
  const wants = (kind: ScenarioKind): boolean => wanted.kinds.includes(kind);
  try {
    for (const variant of wants('studio-sync') || wants('studio-async') ? wanted.variants : []) {
      // oxlint-disable-next-line no-await-in-loop -- processes that start side by side slow each other
      const gateway = await startGateway(servers, variant);
      stops.push(gateway.stop);
      gateways.set(variant.label, gateway);
      const pids = { ...gateway.pids, postgres, temporal, sandbox };
      const suffix = wanted.variants.length > 1 ? `/${variant.label}` : '';
      for (const kind of ['studio-sync', 'studio-async'] as const) {
        if (!wants(kind)) continue;
        const job = kind === 'studio-sync' ? gateway.sync : gateway.async;
        scenarios.push({
          kind,
          name: `${kind}${suffix}`,
          run: (load) => runClosedLoop(job, load),
          pids,
        });
      }
    }
    if (wants('bare') || wants('noop')) {
      const bare = await startBareProcess(servers);
      stops.push(bare.stop);
      const pids = { bare: bare.pid, postgres, temporal, sandbox };
      for (const [kind, workflow] of [
        ['bare', 'bareImage'],
        ['noop', 'noop'],
      ] as const) {
        if (wants(kind))
          scenarios.push({ kind, name: kind, run: (load) => bare.run(workflow, load), pids });
      }
    }
    if (wants('direct')) {
      const direct = await openDirectClient(servers);
      stops.push(direct.stop);
      scenarios.push({
        kind: 'direct',
        name: 'direct',
        run: (load) => runClosedLoop(direct.job, load),
        pids: { sandbox },
      });
    }
    return { scenarios, gateways, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
