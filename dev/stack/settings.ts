import { resolve } from 'node:path';
import { freePort, isPortFree } from './free-port.ts';

/** Ports of the local stack, all on the loopback interface. */
export interface Ports {
  api: number;
  postgres: number;
  temporal: number;
  temporalUi: number;
  sandbox: number;
}

export interface Settings {
  /** Data directory of the stack, as an absolute path. */
  dataDir: string;
  ports: Ports;
  /** Initial credits of the demo organization. */
  demoCredits: number;
  /** Address of an existing Temporal server, as host:port; null: the stack starts one. */
  temporalAddress: string | null;
  temporalNamespace: string;
}

const portVariables = [
  { name: 'api', variable: 'API_PORT', preset: 4000 },
  { name: 'postgres', variable: 'POSTGRES_PORT', preset: 45_432 },
  { name: 'temporal', variable: 'TEMPORAL_PORT', preset: 7233 },
  { name: 'temporalUi', variable: 'TEMPORAL_UI_PORT', preset: 8233 },
  { name: 'sandbox', variable: 'SANDBOX_PORT', preset: 4100 },
] as const;

/**
 * Reads the variables of the stack. A port of 0 stays 0 here (see `claimPorts`).
 * @throws Error with a line per invalid value
 */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const integer = (variable: string, preset: number, max: number): number => {
    const text = env[variable] || String(preset);
    const value = Number(text);
    if (Number.isInteger(value) && value >= 0 && value <= max) return value;
    throw new Error(`${variable} must be a whole number from 0 to ${max}, not ${text}`);
  };
  const ports: Ports = { api: 0, postgres: 0, temporal: 0, temporalUi: 0, sandbox: 0 };
  for (const { name, variable, preset } of portVariables) {
    ports[name] = integer(variable, preset, 65_535);
  }
  return {
    dataDir: resolve(env['DATA_DIR'] || '.data'),
    ports,
    demoCredits: integer('DEMO_CREDITS', 10_000, Number.MAX_SAFE_INTEGER),
    temporalAddress: env['TEMPORAL_ADDRESS'] || null,
    temporalNamespace: env['TEMPORAL_NAMESPACE'] || 'default',
  };
}

/**
 * Checks that the ports are free, and replaces each 0 by a free port.
 * @throws Error with a line per port in use, which names the variable that changes the port
 */
export async function claimPorts({ ports, temporalAddress }: Settings): Promise<Ports> {
  const claimed = { ...ports };
  const taken: string[] = [];
  for (const { name, variable } of portVariables) {
    if (temporalAddress !== null && name.startsWith('temporal')) continue;
    const port = ports[name];
    if (port === 0) {
      do claimed[name] = await freePort();
      while (portVariables.some((o) => o.name !== name && claimed[o.name] === claimed[name]));
    } else if (!(await isPortFree(port))) {
      taken.push(
        `Port ${port} is taken: stop what listens there, or set ${variable} to another port (0 = any free one).`,
      );
    }
  }
  if (taken.length > 0) throw new Error(taken.join('\n'));
  return claimed;
}
