/** What became of a gateway's jobs, as its database tells when the load is over. */
import { Client } from 'pg';
import type { Gateway, Medium } from './gateway.ts';
import {
  runOpenLoop,
  untilEnded,
  type JobTimes,
  type LoadResult,
  type OpenLoad,
} from './open-loop.ts';

interface JobRow {
  id: string;
  status: string;
  billing: string;
  created_at: Date;
  completed_at: Date | null;
}

/** A job that is answered and then forgotten, as a caller with a webhook does: nobody polls. */
export async function runGatewayLoad(
  gateway: Gateway,
  load: OpenLoad & { medium: Medium; databaseUrl: string },
): Promise<LoadResult> {
  const { accepted, ...asked } = await runOpenLoop(load, () =>
    gateway.begin(load.medium, load.providerSeconds),
  );
  const database = new Client({ connectionString: load.databaseUrl });
  await database.connect();
  try {
    const ids = [...accepted.keys()];
    await untilEnded(load, async () => {
      const { rows } = await database.query<{ open: number }>(
        `SELECT count(*)::int AS open FROM job WHERE status = 'queued' AND id = ANY($1)`,
        [ids],
      );
      return rows[0]?.open ?? 0;
    });
    const { rows } = await database.query<JobRow>(
      `SELECT j.id, j.status, r.state AS billing, j.created_at, j.completed_at
        FROM job j JOIN reservation r ON r.id = j.id WHERE j.id = ANY($1)`,
      [ids],
    );
    const jobs = rows.flatMap((row) => timesOf(row, accepted));
    const odd = rows.find(({ status, billing }) => status !== 'completed' || billing !== 'charged');
    const failure = odd ? `job ${odd.id} is ${odd.status} and ${odd.billing}` : null;
    const lost = accepted.size - jobs.length;
    return { ...asked, jobs, lost, firstFailure: asked.firstFailure ?? failure };
  } finally {
    await database.end();
  }
}

function timesOf(row: JobRow, accepted: ReadonlyMap<string, number>): JobTimes[] {
  const askedAtMs = accepted.get(row.id);
  if (row.status !== 'completed' || row.billing !== 'charged') return [];
  if (askedAtMs === undefined || row.completed_at === null) return [];
  const [createdAtMs, endedAtMs] = [row.created_at.getTime(), row.completed_at.getTime()];
  return [{ askedAtMs, createdAtMs, endedAtMs }];
}
