/** Ledger benchmark: transactions in separate and in shared SQL statements, for one organization and for a hundred. */
import { sql } from 'slonik';
import { z } from 'zod';
import { createLedger } from '../../ledger/ledger.ts';
import { createOrganization } from '../../identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { migrate } from '../../platform/migrations.ts';
import { freePort } from '../stack/free-port.ts';
import { startPostgres } from '../stack/postgres.ts';
import { runClosedLoop, type ClosedLoad } from './load.ts';
import type { Benchmark, Variant } from './measurement.ts';
import type { Stops } from './stops.ts';

/** Options of `bench ledger`. */
export interface LedgerOptions {
  callers: number[];
  seconds: number;
}

interface LedgerLoad extends ClosedLoad {
  name: string;
  organizations: string[];
}

/** Runs the two ledger transactions of a job: reserves credits, then charges them. */
type JobTransactions = (organizationId: string) => Promise<unknown>;

/** Number of database connections, as in one process of the gateway (DATABASE_POOL_MAX). */
const poolMax = 12;
const startMicro = 1_000_000_000_000;
const finding = z.object({ finding: z.string(), subject: z.string() });

/** Starts Postgres, and returns the benchmark. Audits the ledger when the benchmark ends. */
export async function planLedger(
  { callers, seconds }: LedgerOptions,
  { directory, started }: { directory: string; started: Stops },
): Promise<Benchmark<LedgerLoad>> {
  const port = await freePort();
  const postgres = await startPostgres({ dataDir: `${directory}/postgres`, port });
  started.push(postgres.stop);
  await migrate(postgres.url);
  const logger = createLogger('bench', 'warn');
  const pool = await openDatabase({ url: postgres.url, poolMax, logger });
  started.push(async () => {
    const findings = await pool.any(sql.type(finding)`SELECT finding, subject FROM ledger_audit`);
    await pool.end();
    if (findings.length > 0) process.exitCode = 1;
    console.log(findings.length > 0 ? `audit: ${JSON.stringify(findings)}` : 'audit: clean');
  });
  const organizationSets = [
    await createOrganizations(pool, 1),
    await createOrganizations(pool, 100),
  ];
  const variant = (name: string, runTransactions: JobTransactions): Variant<LedgerLoad> => ({
    name,
    open: async () => ({
      pids: { postgres: postgres.pid },
      run: (load) => runJobs(runTransactions, load),
      stop: async () => {},
    }),
  });
  const loads = organizationSets.flatMap((organizations) =>
    callers.map((count) => {
      const name = `${count} callers, ${organizations.length} organizations`;
      return { name, organizations, callers: count, seconds, spreadSeconds: 0 };
    }),
  );
  const warmUp = { name: 'warm-up', organizations: organizationSets[1] ?? [], callers: 8 };
  return {
    variants: [
      variant('alone', separateStatements(pool)),
      variant('shared commits', sharedStatements(pool)),
    ],
    loads,
    warmUp: { ...warmUp, seconds: 1, spreadSeconds: 0 },
    baseline: 'alone',
  };
}

async function runJobs(runTransactions: JobTransactions, load: LedgerLoad) {
  let turn = 0;
  const job = async (): Promise<number> => {
    const startedAt = performance.now();
    turn += 1;
    await runTransactions(load.organizations[turn % load.organizations.length] ?? '');
    return performance.now() - startedAt;
  };
  const { results, ...failed } = await runClosedLoop(job, load);
  return { timesMs: { 'reserve and charge': results }, ...failed };
}

/** Returns transactions that each run their own statement. */
function separateStatements(pool: DatabasePool): JobTransactions {
  const apply = async (move: Record<string, string | number>): Promise<void> => {
    await pool.query(
      sql.type(z.object({ answers: z.unknown() }))`
        SELECT ledger_apply(${sql.jsonb([move])}) AS answers`,
    );
  };
  return async (organizationId) => {
    const reference = { organizationId, id: newId('job') };
    await apply({ ...reference, verb: 'reserve', kind: 'studio', amount: 2, ttlMs: 60_000 });
    await apply({ ...reference, verb: 'settle', to: 'charged', amount: 1, reason: 'bench' });
  };
}

/** Returns transactions that share statements with concurrent ones, as in the gateway. */
function sharedStatements(pool: DatabasePool): JobTransactions {
  const ledger = createLedger(pool);
  return async (organizationId) => {
    const reference = { organizationId, id: newId('job') };
    await ledger.reserve({ ...reference, kind: 'studio', amountMicro: 2, ttlMs: 60_000 });
    await ledger.settle({ ...reference, to: 'charged', amountMicro: 1, reason: 'bench' });
  };
}

async function createOrganizations(pool: DatabasePool, count: number): Promise<string[]> {
  const ledger = createLedger(pool);
  const createOne = async (): Promise<string> => {
    const { organizationId } = await createOrganization(pool, {
      name: 'bench',
      windowLimitMicro: null,
    });
    const grant = { id: 'bench', amountMicro: startMicro, actor: 'bench', reason: 'bench' };
    await ledger.grant({ organizationId, ...grant });
    return organizationId;
  };
  return Promise.all(Array.from({ length: count }, createOne));
}
