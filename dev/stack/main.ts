/**
 * `npm start`: runs the whole gateway on one machine, with nothing to install or configure. Restarts
 * any service that exits. Stopping it leaves nothing running.
 */
import { join, relative } from 'node:path';
import { z } from 'zod';
import { AlreadyRunningError } from './instance-lock.ts';
import { LocalStack } from './local-stack.ts';
import { runNode } from './node-service.ts';
import { readSettings, type Settings } from './settings.ts';
import { readStack, stackFile, type StackDescription } from './stack-file.ts';

/** Start time of the bootstrap script, before the installation. */
const startedAtMs = Number(process.env['BOOTSTRAP_STARTED_AT_MS']) || performance.timeOrigin;
/**
 * Signals within this time count as one, because a Ctrl-C arrives from the terminal, npm and the
 * bootstrap script.
 */
const repeatedSignalMs = 500;

function readyMessage(stack: StackDescription, settings: Settings, consoleUrl: string): string {
  const seconds = ((Date.now() - startedAtMs) / 1000).toFixed(1);
  const providers = process.env['FAL_KEY']
    ? []
    : ['Sandbox mode: FAL_KEY is not set, so results come from the bundled provider sandbox.', ''];
  return [
    '',
    `Studio Gateway is ready (${seconds} s)`,
    ...providers,
    `  Console      ${consoleUrl}`,
    `  API          ${stack.apiUrl}`,
    `  Temporal UI  ${stack.temporalUiUrl ?? `(see ${stack.temporalAddress})`}`,
    `  Sandbox      ${stack.sandboxUrl}`,
    `  API key      ${stack.apiKey}`,
    `  More         ${relative(process.cwd(), stackFile(settings.dataDir))} and the folder logs/ next to it`,
    '',
    'Try it:',
    `  curl -s ${stack.apiUrl}/api/v1/studio/image/generate \\`,
    `    -H 'Authorization: Bearer ${stack.apiKey}' -H 'Content-Type: application/json' \\`,
    `    -d '{"prompt":"a lighthouse at dawn"}'`,
    '',
    'Ctrl-C stops everything.',
  ].join('\n');
}

/**
 * Builds the workflow bundle and the console while the servers start. Separate processes do it, so
 * that their memory is freed afterwards.
 */
async function build({ dataDir }: Settings): Promise<void> {
  const parts = { console: 'clients/console/build.ts', workflows: 'worker/build.ts' };
  await Promise.all(
    Object.entries(parts).map(([name, script]) =>
      runNode({ name, script, env: process.env, logPath: join(dataDir, 'logs', `${name}.log`) }),
    ),
  );
}

/** Creates a single-use link that signs in to the console without typing the key. */
async function createSignInLink({ apiUrl, apiKey }: StackDescription): Promise<string> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await fetch(`${apiUrl}/api/v1/session/links`, { method: 'POST', headers });
  const { url } = z.object({ url: z.url() }).parse(await response.json());
  return url;
}

function alreadyRunningMessage({ supervisor }: AlreadyRunningError, settings: Settings): string {
  const stack = readStack(settings.dataDir);
  const place = stack ? `at ${stack.apiUrl}` : 'and still starting';
  return (
    `Already running ${place} (process ${supervisor}, data in ${settings.dataDir}). ` +
    'Stop it first, or set DATA_DIR and the ports for a second stack.'
  );
}

/** Stops the stack on a signal. Returns a function that says whether a signal has arrived. */
function stopOnSignals(stack: LocalStack): () => boolean {
  let firstAt: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (firstAt === undefined) {
      firstAt = Date.now();
      console.log(`\n${signal}: stopping (press Ctrl-C again to kill everything immediately)`);
      void stack.stop().finally(() => process.exit(0));
    } else if (Date.now() - firstAt > repeatedSignalMs) {
      stack.kill();
      process.exit(130);
    }
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  return () => firstAt !== undefined;
}

async function main(): Promise<void> {
  const settings = readSettings(process.env);
  const demo = import('./demo.ts'); // Loads the API's modules while the servers start.
  const windowAllowanceCredits = Number(process.env['WINDOW_ALLOWANCE_CREDITS']) || undefined;
  const stack = new LocalStack({
    settings,
    env: process.env,
    ensureDemoOrganization: async (request) =>
      await (await demo).ensureDemoOrganization({ ...request, windowAllowanceCredits }),
    report: (line) => console.log(line),
  });
  const isStopping = stopOnSignals(stack);
  // After SIGHUP the terminal is closed; failing output must not interrupt the stop.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  try {
    const [description] = await Promise.all([stack.start(), build(settings)]);
    console.log(readyMessage(description, settings, await createSignInLink(description)));
  } catch (error) {
    if (isStopping()) return;
    const message =
      error instanceof AlreadyRunningError
        ? alreadyRunningMessage(error, settings)
        : error instanceof Error
          ? error.message
          : String(error);
    await stack.stop();
    console.error(message);
    process.exit(1);
  }
}

await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
});
