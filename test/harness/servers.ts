/** Servers of a whole test run: one Postgres with a migrated template database, one Temporal server. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import type { TestProject } from 'vitest/node';
import { migrate } from '../../platform/migrations.ts';
import { freePort } from '../../dev/stack/free-port.ts';
import { compileCache } from '../../dev/stack/node-service.ts';
import { startPostgres } from '../../dev/stack/postgres.ts';
import { findTemporalCli } from '../../dev/stack/temporal-cli.ts';
import { startTemporal } from '../../dev/stack/temporal.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Connection URL of the template database; replace its name to reach another. */
    templateDatabaseUrl: string;
    temporalAddress: string;
    /** Directory of the run, for files of gateways; it is removed at the end. */
    directory: string;
  }
}

/** Starts the servers; returns a function that stops them. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // The test processes and their children inherit these variables. Python keeps its compiled modules, too.
  Object.assign(process.env, compileCache);
  delete process.env['PYTHONDONTWRITEBYTECODE'];
  const executable = await findTemporalCli();
  const [postgres, temporal] = await Promise.all([
    startPostgres({
      dataDir: null,
      port: await freePort(),
      database: 'template_gateway',
      durable: false,
    }),
    startTemporal({ dataDir: null, port: await freePort(), uiPort: null, executable }),
    // Builds the cached bundle once for all test processes.
    loadWorkflowBundle(),
    promisify(execFile)(process.execPath, ['clients/console/build.ts']),
  ]);
  await migrate(postgres.url);
  await planOnce(postgres.url);
  // Postgres copies a template only without open connections, so this forbids them.
  const admin = new Client({ connectionString: postgres.url.replace(/\/[^/]*$/, '/postgres') });
  await admin.connect();
  await admin.query(
    `UPDATE pg_database SET datistemplate = true, datallowconn = false WHERE datname = 'template_gateway'`,
  );
  // The local date of sessions is never that of UTC, which finds statements that depend on it.
  const timezone = new Date().getUTCHours() < 12 ? 'Etc/GMT+12' : 'Pacific/Kiritimati';
  await admin.query(`ALTER ROLE CURRENT_USER SET timezone = '${timezone}'`);
  await admin.end();
  project.provide('templateDatabaseUrl', postgres.url);
  project.provide('temporalAddress', temporal.address);
  // A shared gateway ends with its vitest worker, before it can remove its files.
  const directory = await mkdtemp(join(tmpdir(), 'gateway-tests-'));
  project.provide('directory', directory);
  return async () => {
    await Promise.all([postgres.stop(), temporal.stop()]);
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  };
}

/**
 * Lets the audit plan its statements once for each connection. It plans them for each account, as large tables need, which
 * on the small tables of tests takes longer than to run them.
 */
async function planOnce(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(`DO $$ DECLARE planned regprocedure; BEGIN
    FOR planned IN SELECT oid FROM pg_proc WHERE 'plan_cache_mode=force_custom_plan' = ANY (proconfig) LOOP
      EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', planned);
    END LOOP;
  END $$`);
  await client.end();
}
