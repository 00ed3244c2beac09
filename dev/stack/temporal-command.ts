/**
 * `npm run temporal -- …`: runs Temporal's CLI in the version that `npm start` uses. It connects to
 * the server that the environment names (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, …), or to the
 * server of the local stack.
 */
import { spawn } from 'node:child_process';
import { loadTemporalConfig } from '../replay/replay-settings.ts';
import { findTemporalCli } from './temporal-cli.ts';

const report = (line: string): void => void process.stderr.write(`${line}\n`);

/** Returns the environment variables that configure Temporal's CLI. */
function cliEnvironment(): Record<string, string> {
  const config = loadTemporalConfig();
  const named = {
    TEMPORAL_ADDRESS: config.TEMPORAL_ADDRESS,
    TEMPORAL_NAMESPACE: config.TEMPORAL_NAMESPACE,
    TEMPORAL_TLS: config.TEMPORAL_TLS ? 'true' : undefined,
    TEMPORAL_TLS_CLIENT_CERT_PATH: config.TEMPORAL_TLS_CERT_PATH,
    TEMPORAL_TLS_CLIENT_KEY_PATH: config.TEMPORAL_TLS_KEY_PATH,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: config.TEMPORAL_TLS_CA_PATH,
    TEMPORAL_API_KEY: config.TEMPORAL_API_KEY,
  };
  return Object.fromEntries(
    Object.entries(named).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

try {
  const env = { ...process.env, ...cliEnvironment() };
  const cli = spawn(await findTemporalCli({ report }), process.argv.slice(2), {
    stdio: 'inherit',
    env,
  });
  cli.once('error', (error) => {
    report(`temporal: ${error.message}`);
    process.exitCode = 2;
  });
  cli.once('exit', (code) => {
    process.exitCode = code ?? 1;
  });
} catch (error) {
  report(`temporal: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 2;
}
