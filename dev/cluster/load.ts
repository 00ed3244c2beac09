/** Sends requests to a cluster as its callers would, and checks the resulting jobs. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { Agent, request } from 'undici';
import { quantile, runOpenLoop, spaceEvenly, untilEnded, type OpenLoad } from '../bench/load.ts';

/** Gateway to which the requests are sent, and its database. */
export interface Target {
  url: string;
  apiKey: string;
  databaseUrl: string;
}

/** How long a caller retries a request, in milliseconds. */
const retryMs = 120_000;
/** Time limit of a request, longer than a synchronous response takes. */
const answerTimeoutMs = 70_000;
/**
 * Statuses after which a caller retries: those in docs/errors.md, and those of a load balancer. 0 means that the connection
 * failed.
 */
const retryableStatuses = new Set([0, 409, 429, 502, 503, 504]);

/** Sends requests at the given rate, alternately synchronous and asynchronous; returns when all jobs have ended. */
export async function runLoad(target: Target, load: OpenLoad) {
  const agent = new Agent({ connections: 256 });
  /** Number of retries by the status that caused them. */
  const retried: Record<string, number> = {};
  try {
    const dueMs = spaceEvenly(load);
    const { results, ...failed } = await runOpenLoop(dueMs, async (turn, dueAtMs) => {
      const retryUntil = Date.now() + retryMs;
      for (;;) {
        const { status, text } = await sendRequest(target, agent, turn);
        if (status === 200 || status === 202) return [buildTag(turn), dueAtMs] as const;
        if (!retryableStatuses.has(status) || Date.now() > retryUntil)
          throw new Error(`${status} ${text}`);
        retried[status] = (retried[status] ?? 0) + 1;
        await sleep(500);
      }
    });
    const outcome = await readOutcome(target, load, new Map(results));
    return { requested: dueMs.length, ...outcome, retried, ...failed };
  } finally {
    await agent.close();
  }
}

/** Builds the tag of a request, used as its Idempotency-Key and request id. */
function buildTag(turn: number): string {
  return `cluster-${turn}`;
}

async function sendRequest(
  { url, apiKey }: Target,
  agent: Agent,
  turn: number,
): Promise<{ status: number; text: string }> {
  try {
    const answer = await request(`${url}/api/v1/studio/image/generate`, {
      dispatcher: agent,
      method: 'POST',
      headers: {
        authorization: `Bearer ${apiKey}`,
        'content-type': 'application/json',
        'idempotency-key': buildTag(turn),
        'x-request-id': buildTag(turn),
      },
      body: JSON.stringify({ prompt: `a ferry, number ${turn}`, async: turn % 2 === 0 }),
      signal: AbortSignal.timeout(answerTimeoutMs),
    });
    return { status: answer.statusCode, text: (await answer.body.text()).slice(0, 200) };
  } catch (error) {
    return { status: 0, text: String(error) };
  }
}

interface JobRow {
  tag: string;
  status: string;
  charges: number;
  releases: number;
  ended_at: Date | null;
}

const jobs = `
  SELECT j.request_id AS tag, j.status, j.completed_at AS ended_at,
    count(*) FILTER (WHERE e.kind = 'charge')::int AS charges,
    count(*) FILTER (WHERE e.kind = 'release')::int AS releases
  FROM job j JOIN ledger_entry e ON e.reservation_id = j.id
  WHERE j.request_id LIKE 'cluster-%' GROUP BY j.id`;

async function readOutcome(
  { databaseUrl }: Target,
  load: OpenLoad,
  accepted: ReadonlyMap<string, number>,
) {
  const database = new Client({ connectionString: databaseUrl });
  await database.connect();
  try {
    const read = async (): Promise<JobRow[]> => (await database.query<JobRow>(jobs)).rows;
    await untilEnded(load, async () => {
      return (await read()).filter(({ status }) => status === 'open').length;
    });
    const rows = (await read()).filter(({ tag }) => accepted.has(tag));
    const charges = new Map<string, number>();
    for (const { tag, charges: more } of rows) charges.set(tag, (charges.get(tag) ?? 0) + more);
    const settled = rows.filter(({ charges: one, releases }) => one + releases > 0);
    const known = new Set(settled.map(({ tag }) => tag));
    const seconds = settled
      .map(({ tag, ended_at: at }) => ((at?.getTime() ?? 0) - (accepted.get(tag) ?? 0)) / 1000)
      .toSorted((one, other) => one - other);
    return {
      // Number of requests that received 200 or 202.
      accepted: accepted.size,
      charged: rows.filter(({ status, charges: count }) => status === 'completed' && count > 0)
        .length,
      released: rows.filter(({ status, charges: count }) => status === 'failed' && count === 0)
        .length,
      // Tags of accepted requests without a charged or released job.
      lost: [...accepted.keys()].filter((tag) => !known.has(tag)),
      twice: [...charges].filter(([, times]) => times > 1).map(([tag]) => tag),
      // Times from when a request was due until its job ended.
      middleSeconds: quantile(seconds, 0.5),
      slowestSeconds: seconds.at(-1) ?? 0,
    };
  } finally {
    await database.end();
  }
}

/** Requests of a load compared with their jobs. */
export type LoadOutcome = Awaited<ReturnType<typeof runLoad>>;
