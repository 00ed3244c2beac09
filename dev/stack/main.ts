/**
 * `npm start`: the whole gateway on one machine, with nothing to install or configure. This folder
 * promises that what it started is running or restarted, and that nothing is left when it stops.
 */
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { AlreadyRunningError } from './instance-lock.ts';
import { LocalStack, stackFile, type StackDescription } from './local-stack.ts';
import { readSettings, type Settings } from './settings.ts';

/** The bootstrap script tells when it began, which may have been an installation earlier. */
const startedAtMs = Number(process.env['BOOTSTRAP_STARTED_AT_MS']) || performance.timeOrigin;
/** One Ctrl-C arrives more than once (from the terminal, npm and the bootstrap script). */
const repeatedSignalMs = 500;

function readyMessage(stack: StackDescription, settings: Settings): string {
  const seconds = ((Date.now() - startedAtMs) / 1000).toFixed(1);
  const providers = process.env['FAL_KEY']
    ? []
    : ['sandbox mode: no provider key is set (FAL_KEY), results come from the bundled sandbox', ''];
  return [
    '',
    `Studio Gateway is ready (${seconds} s)`,
    ...providers,
    `  API          ${stack.apiUrl}`,
    `  Temporal UI  ${stack.temporalUiUrl ?? `(see ${stack.temporalAddress})`}`,
    `  Sandbox      ${stack.sandboxUrl}`,
    `  API key      ${stack.apiKey}`,
    `  More         ${relative(process.cwd(), stackFile(settings.dataDir))} and logs/ beside it`,
    '',
    'Try it:',
    `  curl -s ${stack.apiUrl}/api/v1/studio/image/generate \\`,
    `    -H 'Authorization: Bearer ${stack.apiKey}' -H 'Content-Type: application/json' \\`,
    `    -d '{"prompt":"a lighthouse at dawn"}'`,
    '',
    'Ctrl-C stops everything.',
  ].join('\n');
}

function alreadyRunningMessage({ supervisor }: AlreadyRunningError, settings: Settings): string {
  const place = (() => {
    try {
      const { apiUrl } = JSON.parse(readFileSync(stackFile(settings.dataDir), 'utf8'));
      return `at ${String(apiUrl)}`;
    } catch {
      return 'and still starting';
    }
  })();
  return (
    `Already running ${place} (process ${supervisor}, data in ${settings.dataDir}). ` +
    'Stop it first, or set DATA_DIR and the ports for a second stack.'
  );
}

/** @returns whether a signal has asked the stack to stop. */
function stopOnSignals(stack: LocalStack): () => boolean {
  let firstAt: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (firstAt === undefined) {
      firstAt = Date.now();
      console.log(`\n${signal}: stopping (once more to end at once)`);
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
  const demo = import('./demo.ts'); // The API's modules load while the servers start.
  const windowAllowanceCredits = Number(process.env['WINDOW_ALLOWANCE_CREDITS']) || undefined;
  const stack = new LocalStack({
    settings,
    env: process.env,
    ensureDemoOrganization: async (request) =>
      await (await demo).ensureDemoOrganization({ ...request, windowAllowanceCredits }),
    programs: {
      sandbox: 'dev/sandbox/main.ts',
      migrate: 'platform/migrate.ts',
      api: 'api/main.ts',
      worker: 'worker/main.ts',
    },
    report: (line) => console.log(line),
  });
  const isStopping = stopOnSignals(stack);
  // A closed terminal must not break off the orderly stop that its SIGHUP began.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  try {
    console.log(readyMessage(await stack.start(), settings));
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
