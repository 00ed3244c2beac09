/**
 * `npm run audit`: audits the ledger (ledger/audit.ts) of the gateway that DATABASE_URL names, or of
 * the local stack of `npm start` if the variable is not set.
 */
import { loadSecrets } from './secrets.ts';
import { readSettings } from './settings.ts';
import { readStack } from './stack-file.ts';
import { planStack } from './stack-plan.ts';

/** Adds the settings of the local stack to the environment. @throws Error if none is running */
function useLocalStack(env: NodeJS.ProcessEnv): void {
  const settings = readSettings(env);
  const stack = readStack(settings.dataDir);
  if (stack === null) {
    throw new Error(`no stack is running in ${settings.dataDir}, and DATABASE_URL is not set`);
  }
  const secrets = loadSecrets(settings.dataDir);
  const plan = planStack({ settings, ports: settings.ports, secrets, env });
  Object.assign(env, plan.worker.env, {
    DATABASE_URL: stack.databaseUrl,
    TEMPORAL_ADDRESS: stack.temporalAddress,
    TEMPORAL_NAMESPACE: stack.temporalNamespace,
  });
  if (!process.argv.includes('--submits')) process.argv.push('--submits', stack.sandboxUrl);
}

try {
  if (!process.env['DATABASE_URL']) useLocalStack(process.env);
  await import('../../worker/audit-command.ts');
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
