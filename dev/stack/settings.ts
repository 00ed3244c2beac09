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
  /** `host:port` of an existing Temporal server. Null to start one. */
  temporalAddress: string | null;
  temporalNamespace: string;
}

const portVariables = [
  { name: 'api', variable: 'API_PORT', defaultPort: 4000 },
  { name: 'postgres', variable: 'POSTGRES_PORT', defaultPort: 45_432 },
  { name: 'temporal', variable: 'TEMPORAL_PORT', defaultPort: 7233 },
  { name: 'temporalUi', variable: 'TEMPORAL_UI_PORT', defaultPort: 8233 },
  { name: 'sandbox', variable: 'SANDBOX_PORT', defaultPort: 4100 },
] as const;

/**
 * Reads the stack's environment variables. A port of 0 stays 0 here (see `claimPorts`).
 * @throws Error if a value is invalid
 */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const integer = (variable: string, defaultValue: number, max: number): number => {
    const text = env[variable] || String(defaultValue);
    const value = Number(text);
    if (Number.isInteger(value) && value >= 0 && value <= max) return value;
    throw new Error(`${variable} must be an integer from 0 to ${max} (received ${text})`);
  };
  const ports: Ports = { api: 0, postgres: 0, temporal: 0, temporalUi: 0, sandbox: 0 };
  for (const { name, variable, defaultPort } of portVariables) {
    ports[name] = integer(variable, defaultPort, 65_535);
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
 * Checks that the ports are free, and replaces each 0 with a free port.
 * @throws Error with one line per port in use, which names the variable that sets the port
 */
export async function claimPorts({ ports, temporalAddress }: Settings): Promise<Ports> {
  const claimed = { ...ports };
  const problems: string[] = [];
  for (const { name, variable } of portVariables) {
    if (temporalAddress !== null && name.startsWith('temporal')) continue;
    const port = ports[name];
    if (port === 0) {
      do claimed[name] = await freePort();
      while (
        portVariables.some((other) => other.name !== name && claimed[other.name] === claimed[name])
      );
    } else if (!(await isPortFree(port))) {
      problems.push(
        `Port ${port} is in use: stop the program that uses it, or set ${variable} to another port (0 chooses a free one).`,
      );
    }
  }
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return claimed;
}
