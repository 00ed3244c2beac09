/**
 * `npm run audit`: checks every promise about money and results and prints a table. Looks at the
 * gateway that the environment describes, or at the local stack of `npm start`.
 *
 * Exit codes: 0 all promises hold, 1 one does not, 2 the audit could not look.
 */
import { knownProviders } from '../../providers/registry.ts';
import { Client } from '@temporalio/client';
import { Command } from 'commander';
import { z } from 'zod';
import {
  runAudit,
  type AuditReport,
  type AuditSources,
  type WitnessedSubmit,
} from '../../ledger/audit.ts';
import { ownerOf } from '../../jobs/records/job-owner.ts';
import { openStorage } from '../../storage/open-storage.ts';
import { loadConfig, type Config } from '../../platform/config.ts';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { connectTemporal } from '../../platform/temporal.ts';
import { loadSecrets } from './secrets.ts';
import { readSettings } from './settings.ts';
import { readStack } from './stack-file.ts';
import { planStack } from './stack-plan.ts';

interface Target {
  config: Config;
  sandboxUrl: string | null;
}

/** The gateway to look at. @throws Error when there is none */
function findTarget(env: NodeJS.ProcessEnv): Target {
  if (env['DATABASE_URL']) return { config: loadConfig(knownProviders, env), sandboxUrl: null };
  const settings = readSettings(env);
  const stack = readStack(settings.dataDir);
  if (stack === null)
    throw new Error(`no stack runs in ${settings.dataDir}, and DATABASE_URL is not set`);
  const secrets = loadSecrets(settings.dataDir);
  const plan = planStack({ settings, ports: settings.ports, secrets, env });
  const config = loadConfig(knownProviders, {
    ...plan.worker.env,
    DATABASE_URL: stack.databaseUrl,
    TEMPORAL_ADDRESS: stack.temporalAddress,
    TEMPORAL_NAMESPACE: stack.temporalNamespace,
  });
  return { config, sandboxUrl: stack.sandboxUrl };
}

const submitList = z.array(
  z.object({ webhookUrl: z.string().nullable(), idempotencyKey: z.string().nullable() }),
);

async function readSubmits(sandboxUrl: string): Promise<WitnessedSubmit[]> {
  const answer = await fetch(`${sandboxUrl}/_sandbox/submits`);
  if (!answer.ok) throw new Error(`${sandboxUrl} answered ${answer.status}`);
  const told: unknown = await answer.json();
  return submitList.parse(
    Array.isArray(told) ? told : z.object({ submits: submitList }).parse(told).submits,
  );
}

function table({ checks, tookMs }: AuditReport): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const lines = checks.flatMap(({ name, examined, subjects }) => {
    const looked = examined === null ? 'all' : String(examined);
    const line = `${name.padEnd(width)}  ${looked.padStart(8)}  ${String(subjects.length).padStart(8)}`;
    return [line, ...subjects.slice(0, 20).map((subject) => `    ${subject}`)];
  });
  const head = `${'finding'.padEnd(width)}  looked at     found`;
  return [head, ...lines, `${tookMs} ms`].join('\n');
}

interface Options {
  results?: true;
  submits?: string;
  owners: boolean;
  json?: true;
}
const given = new Command('audit')
  .description('Checks every promise about money and results.')
  .option('--results', 'read every paid result and compare it with its recorded hash')
  .option(
    '--submits <url>',
    'the sandbox that tells what providers accepted (default: the local one)',
  )
  .option('--no-owners', 'do not ask Temporal who owns open reservations')
  .option('--json', 'print the report as JSON')
  .parse()
  .opts<Options>();

/** Connections that are in the way of the process's end. */
const closing: (() => Promise<void>)[] = [];

async function openSources({ config, sandboxUrl }: Target): Promise<AuditSources> {
  const logger = createLogger('audit', 'silent');
  const databaseUrl = config.DATABASE_URL;
  const pool = await openDatabase({ url: databaseUrl, poolMax: 2, logger });
  closing.push(() => pool.end());
  const sources: AuditSources = { databaseUrl, pool };
  if (given.owners) {
    const connection = await connectTemporal(config, logger);
    closing.push(() => connection.close());
    const client = new Client({ connection, namespace: config.TEMPORAL_NAMESPACE });
    sources.isOwned = async (jobId) => (await ownerOf(client, jobId)) === 'running';
  }
  if (given.results) sources.storage = (await openStorage(config, 'http://127.0.0.1')).storage;
  const witness = given.submits ?? sandboxUrl;
  if (witness !== null) sources.submits = () => readSubmits(witness);
  return sources;
}

try {
  const report = await runAudit(await openSources(findTarget(process.env)));
  process.stdout.write(`${given.json ? JSON.stringify(report, null, 2) : table(report)}\n`);
  process.exitCode = report.clean ? 0 : 1;
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
} finally {
  await Promise.all(closing.map((close) => close().catch(() => {})));
}
