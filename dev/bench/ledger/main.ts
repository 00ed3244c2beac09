/**
 * `npm run bench:ledger`: money moves per second, each its own statement and group-committed, on one
 * organization and on a hundred, by few and by many callers, in interleaved rounds on a Postgres of its own
 * (docs/performance.md).
 */
import { rm } from 'node:fs/promises';
import { Command } from 'commander';
import { sql } from 'slonik';
import { z } from 'zod';
import { createLedger } from '../../../activities/ledger/ledger.ts';
import { createOrganization } from '../../../api/identity/organizations.ts';
import { newId } from '../../../domain/ids.ts';
import { openDatabase, type DatabasePool } from '../../../platform/database.ts';
import { createLogger } from '../../../platform/logger.ts';
import { migrate } from '../../../platform/migrations.ts';
import { freePort } from '../../stack/free-port.ts';
import { startPostgres } from '../../stack/postgres.ts';
import { makeTemporaryDirectory } from '../../stack/temporary-directory.ts';
import { runClosedLoop } from '../closed-loop.ts';
import { readUsage } from '../process-usage.ts';
import { renderTable } from '../table.ts';

const finding = z.object({ finding: z.string(), subject: z.string() });

interface Options {
  callers: number[];
  seconds: number;
  rounds: number;
}

/** Two moves: a reservation and its charge. */
type Pair = (organizationId: string) => Promise<void>;

const options = new Command('bench:ledger')
  .option('--callers <n,…>', 'at once', (text) => text.split(',').map(Number), [64, 512])
  .option('--seconds <n>', 'per round and way', Number, 3)
  .option('--rounds <n>', 'interleaved', Number, 3)
  .parse()
  .opts<Options>();
const movesPerPair = 2;
/** As a process of ours has (DATABASE_POOL_MAX). */
const poolMax = 12;
const startMicro = 1_000_000_000_000;

/** The way without group commit: one call of the ledger's function per move. */
function oneByOne(pool: DatabasePool): Pair {
  const apply = async (move: Record<string, string | number>): Promise<void> => {
    await pool.query(
      sql.type(z.object({ answers: z.unknown() }))`
        SELECT ledger_apply(${sql.jsonb([move])}) AS answers`,
    );
  };
  return async (organizationId) => {
    const id = newId('job');
    const named = { organizationId, id };
    await apply({ ...named, verb: 'reserve', kind: 'studio', amount: 2, ttlMs: 60_000 });
    await apply({ ...named, verb: 'settle', to: 'charged', amount: 1, reason: 'bench' });
  };
}

/** Our way. */
function grouped(pool: DatabasePool): Pair {
  const ledger = createLedger(pool);
  return async (organizationId) => {
    const id = newId('job');
    const named = { organizationId, id };
    await ledger.reserve({ ...named, kind: 'studio', amountMicro: 2, ttlMs: 60_000 });
    await ledger.settle({ ...named, to: 'charged', amountMicro: 1, reason: 'bench' });
  };
}

async function makeOrganizations(pool: DatabasePool, count: number): Promise<string[]> {
  const ledger = createLedger(pool);
  const make = async (): Promise<string> => {
    const made = await createOrganization(pool, { name: 'bench', windowLimitMicro: null });
    const { organizationId } = made;
    const grant = { id: 'bench', amountMicro: startMicro, actor: 'bench', reason: 'bench' };
    await ledger.grant({ organizationId, ...grant });
    return organizationId;
  };
  return Promise.all(Array.from({ length: count }, make));
}

async function measure(pool: DatabasePool, postgresPid: number): Promise<string[][]> {
  const ways = { 'one statement per move': oneByOne(pool), 'group commit': grouped(pool) };
  const crowds = {
    '1': await makeOrganizations(pool, 1),
    '100': await makeOrganizations(pool, 100),
  };
  const cells = Object.entries(crowds).flatMap(([crowd, organizations]) =>
    options.callers.flatMap((callers) =>
      Object.entries(ways).map(([way, pair]) => {
        return { crowd, organizations, callers, way, pair, ...nothing() };
      }),
    ),
  );
  for (let round = 0; round < options.rounds; round += 1) {
    for (const cell of cells) {
      let turn = 0;
      const job = (): Promise<void> => {
        turn += 1;
        return cell.pair(cell.organizations[turn % cell.organizations.length] ?? '');
      };
      const load = { concurrency: cell.callers, seconds: options.seconds };
      const before = cpuMsOf(postgresPid);
      // One at a time: that is the measurement.
      const { latenciesMs, elapsedSeconds, firstFailure } = await runClosedLoop(job, load);
      if (firstFailure !== null) throw new Error(firstFailure);
      cell.moves += latenciesMs.length * movesPerPair;
      cell.seconds += elapsedSeconds;
      cell.cpuMs += cpuMsOf(postgresPid) - before;
    }
  }
  return cells.map(({ crowd, callers, way, moves, seconds, cpuMs }) => {
    // The first way of the same crowd and callers.
    const base = cells.find((cell) => cell.crowd === crowd && cell.callers === callers);
    const times = moves / seconds / (base ? base.moves / base.seconds : 1);
    const rate = (moves / seconds).toFixed(0);
    return [
      crowd,
      String(callers),
      way,
      rate,
      times.toFixed(1),
      ((1000 * cpuMs) / moves).toFixed(0),
    ];
  });
}

function nothing(): { moves: number; seconds: number; cpuMs: number } {
  return { moves: 0, seconds: 0, cpuMs: 0 };
}

function cpuMsOf(pid: number): number {
  return readUsage({ postgres: pid })['postgres']?.cpuMs ?? 0;
}

const directory = makeTemporaryDirectory('bench-ledger');
const postgres = await startPostgres({
  dataDir: `${directory}/postgres`,
  port: await freePort(),
  password: 'bench-ledger',
});
try {
  await migrate(postgres.url);
  const logger = createLogger('bench', 'warn');
  const pool = await openDatabase({ url: postgres.url, poolMax, logger });
  try {
    const rows = await measure(pool, postgres.pid);
    const costs = ['moves/s', '× one by one', 'Postgres CPU µs per move'];
    const head = ['organizations', 'callers', 'way', ...costs];
    console.log(renderTable([head, ...rows]));
    const findings = await pool.any(sql.type(finding)`SELECT finding, subject FROM ledger_audit`);
    if (findings.length > 0) throw new Error(`the ledger's audit: ${JSON.stringify(findings)}`);
    console.log('audit: every promise of the ledger holds');
  } finally {
    await pool.end();
  }
} finally {
  await postgres.stop();
  await rm(directory, { recursive: true, force: true });
}
