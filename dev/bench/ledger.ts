/** Moves of the ledger, each in a statement of its own and in shared statements, for one and for a hundred organizations. */
import { sql } from 'slonik';
import { z } from 'zod';
import { createLedger } from '../../ledger/ledger.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { newId } from '../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { migrate } from '../../platform/migrations.ts';
import { freePort } from '../stack/free-port.ts';
import { startPostgres } from '../stack/postgres.ts';
import { runClosedLoop, type ClosedLoad } from './load.ts';
import type { Benchmark, Way } from './measurement.ts';
import type { Stops } from './stops.ts';

/** Options of the command. */
export interface LedgerOptions {
  callers: number[];
  seconds: number;
}

interface LedgerLoad extends ClosedLoad {
  name: string;
  organizations: string[];
}

/** Makes the two moves of a job: a reservation and its charge. */
type Pair = (organizationId: string) => Promise<unknown>;

/** Connections of a process of the gateway (DATABASE_POOL_MAX). */
const poolMax = 12;
const startMicro = 1_000_000_000_000;
const finding = z.object({ finding: z.string(), subject: z.string() });

/** Starts Postgres, and returns the benchmark; the ledger is audited at its end. */
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
  const crowds = [await makeOrganizations(pool, 1), await makeOrganizations(pool, 100)];
  const way = (name: string, pair: Pair): Way<LedgerLoad> => ({
    name,
    open: async () => ({
      pids: { postgres: postgres.pid },
      run: (load) => runPairs(pair, load),
      stop: async () => {},
    }),
  });
  const loads = crowds.flatMap((organizations) =>
    callers.map((count) => {
      const name = `${count} callers, ${organizations.length} organizations`;
      return { name, organizations, callers: count, seconds, spreadSeconds: 0 };
    }),
  );
  const warmUp = { name: 'warm-up', organizations: crowds[1] ?? [], callers: 8 };
  return {
    ways: [way('alone', oneByOne(pool)), way('shared commits', grouped(pool))],
    loads,
    warmUp: { ...warmUp, seconds: 1, spreadSeconds: 0 },
    baseline: 'alone',
  };
}

async function runPairs(pair: Pair, load: LedgerLoad) {
  let turn = 0;
  const job = async (): Promise<number> => {
    const startedAt = performance.now();
    turn += 1;
    await pair(load.organizations[turn % load.organizations.length] ?? '');
    return performance.now() - startedAt;
  };
  const { latenciesMs, ...failed } = await runClosedLoop(job, load);
  return { timesMs: { 'two moves': latenciesMs }, ...failed };
}

/** Calls the function of the ledger for each move. */
function oneByOne(pool: DatabasePool): Pair {
  const apply = async (move: Record<string, string | number>): Promise<void> => {
    await pool.query(
      sql.type(z.object({ answers: z.unknown() }))`
        SELECT ledger_apply(${sql.jsonb([move])}) AS answers`,
    );
  };
  return async (organizationId) => {
    const named = { organizationId, id: newId('job') };
    await apply({ ...named, verb: 'reserve', kind: 'studio', amount: 2, ttlMs: 60_000 });
    await apply({ ...named, verb: 'settle', to: 'charged', amount: 1, reason: 'bench' });
  };
}

/** Shares statements, as the gateway does. */
function grouped(pool: DatabasePool): Pair {
  const ledger = createLedger(pool);
  return async (organizationId) => {
    const named = { organizationId, id: newId('job') };
    await ledger.reserve({ ...named, kind: 'studio', amountMicro: 2, ttlMs: 60_000 });
    await ledger.settle({ ...named, to: 'charged', amountMicro: 1, reason: 'bench' });
  };
}

async function makeOrganizations(pool: DatabasePool, count: number): Promise<string[]> {
  const ledger = createLedger(pool);
  const make = async (): Promise<string> => {
    const { organizationId } = await createOrganization(pool, {
      name: 'bench',
      windowLimitMicro: null,
    });
    const grant = { id: 'bench', amountMicro: startMicro, actor: 'bench', reason: 'bench' };
    await ledger.grant({ organizationId, ...grant });
    return organizationId;
  };
  return Promise.all(Array.from({ length: count }, make));
}
