/**
 * `node worker/audit-command.ts`: checks every guarantee about credits and results (docs/guarantees.md) and
 * prints a table. The environment variables of the gateway select the database, storage and
 * Temporal server. Exit status: 0 if there are no violations, 1 if there are violations, 2 if the
 * audit failed.
 */
import { Client } from '@temporalio/client';
import { Command } from 'commander';
import { z } from 'zod';
import { hasRunningWorkflow } from '../executions/workflow-state.ts';
import {
  runAudit,
  violationsShownMax,
  type AuditReport,
  type AuditSources,
  type LoggedCall,
} from '../ledger/audit.ts';
import { loadConfig } from '../platform/config.ts';
import { openDatabase } from '../platform/database.ts';
import { createLogger } from '../platform/logger.ts';
import { openTemporal } from '../platform/temporal-connection.ts';
import { knownProviders } from '../process/run-process.ts';
import { openStorage } from '../storage/open-storage.ts';

const acceptedCallList = z.array(
  z.object({ webhookUrl: z.string().nullable(), idempotencyKey: z.string().nullable() }),
);

/** Reads the calls that the provider sandbox has accepted. */
async function readAcceptedCalls(sandboxUrl: string): Promise<LoggedCall[]> {
  const response = await fetch(`${sandboxUrl}/_sandbox/submits`);
  if (!response.ok) throw new Error(`${sandboxUrl} responded with status ${response.status}`);
  const body: unknown = await response.json();
  return acceptedCallList.parse(
    Array.isArray(body) ? body : z.object({ submits: acceptedCallList }).parse(body).submits,
  );
}

/** Formats a report: a table with the counts of each check, then the ids of the violations. */
function formatReport(report: AuditReport): string {
  const { checks, tookMs, scope, entries, reservations } = report;
  const width = Math.max(...checks.map(({ name }) => name.length));
  const counts = checks.map(({ name, examined, subjects }) => {
    const count = examined === null ? 'all' : String(examined);
    return `${name.padEnd(width)}  ${count.padStart(8)}  ${String(subjects.length).padStart(10)}`;
  });
  const findings = checks
    .filter(({ subjects }) => subjects.length > 0)
    .flatMap(({ name, subjects }) => [
      '',
      subjects.length > violationsShownMax ? `${name}: the first ${violationsShownMax}` : name,
      ...subjects.slice(0, violationsShownMax).map((id) => `    ${id}`),
    ]);
  const head = `${'check'.padEnd(width)}  examined  violations`;
  const covered = `${scope === 'all' ? 'all' : 'changed'} rows: ${entries} ledger entries, ${reservations} reservations, ${tookMs} ms`;
  return [head, ...counts, covered, ...findings].join('\n');
}

interface Options {
  results?: true;
  submits?: string;
  owners: boolean;
  json?: true;
  changes?: true;
}
const options = new Command('audit')
  .description('Checks every guarantee about credits and results.')
  .option('--changes', 'check only what has changed since the last audit without violations')
  .option('--results', 'read every charged result and compare its hash with the recorded hash')
  .option(
    '--submits <url>',
    'check that the provider sandbox at this URL accepted no call more than once',
  )
  .option('--no-owners', 'do not check that every open reservation has a running workflow')
  .option('--json', 'print the report as JSON')
  .parse()
  .opts<Options>();

/** Functions that close the connections. An open connection keeps the process running. */
const closeFunctions: (() => Promise<void>)[] = [];

async function openSources(): Promise<AuditSources> {
  const config = loadConfig(knownProviders);
  const logger = createLogger('audit', 'silent');
  const databaseUrl = config.DATABASE_URL;
  const pool = await openDatabase({ url: databaseUrl, poolMax: 2, logger });
  closeFunctions.push(() => pool.end());
  const sources: AuditSources = { databaseUrl, pool };
  if (options.owners) {
    const connection = await openTemporal(config);
    closeFunctions.push(() => connection.close());
    const client = new Client({ connection, namespace: config.TEMPORAL_NAMESPACE });
    sources.hasRunningWorkflow = (jobId) => hasRunningWorkflow(client, jobId);
  }
  if (options.results) sources.storage = (await openStorage(config, 'http://127.0.0.1')).storage;
  const { submits } = options;
  if (submits !== undefined) sources.acceptedCalls = () => readAcceptedCalls(submits);
  return sources;
}

try {
  const report = await runAudit(await openSources(), {
    scope: options.changes ? 'changes' : 'all',
  });
  process.stdout.write(
    `${options.json ? JSON.stringify(report, null, 2) : formatReport(report)}\n`,
  );
  process.exitCode = report.clean ? 0 : 1;
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
} finally {
  await Promise.all(closeFunctions.map((close) => close().catch(() => {})));
}
