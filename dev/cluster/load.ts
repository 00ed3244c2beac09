/** Callers of a cluster: their requests, the responses, and the resulting jobs. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { Agent, request } from 'undici';
import { quantile, runOpenLoop, untilEnded, type OpenLoad } from '../bench/load.ts';

/** Target of the requests. */
export interface Target {
  url: string;
  apiKey: string;
  databaseUrl: string;
}

/** Time during which a caller retries, in milliseconds. */
const retryMs = 120_000;
/** Time limit of a request, longer than a synchronous response takes. */
const answerTimeoutMs = 70_000;
/** Statuses that are retried: those of docs/errors.md, and those of a proxy. */
const passing = new Set([0, 409, 429, 502, 503, 504]);

/**
 * Sends requests at the given rate, every second one synchronously; returns when all jobs have
 * ended.
 */
export async function runLoad(target: Target, load: OpenLoad) {
  const agent = new Agent({ connections: 256 });
  /** Number of retried responses by status; 0: the connection failed. */
  const retried: Record<string, number> = {};
  try {
    const { accepted, ...rest } = await runOpenLoop(load, async (turn) => {
      const givenUpAt = Date.now() + retryMs;
      for (;;) {
        const { status, text } = await ask(target, agent, turn);
        if (status === 200 || status === 202) return tagOf(turn);
        if (!passing.has(status) || Date.now() > givenUpAt) throw new Error(`${status} ${text}`);
        retried[status] = (retried[status] ?? 0) + 1;
        await sleep(500);
      }
    });
    const outcome = await outcomeOf(target, load, accepted);
    return { requested: Math.round(load.rate * load.seconds), ...outcome, retried, ...rest };
  } finally {
    await agent.close();
  }
}

/** Tag of a request, in its Idempotency-Key and in the job's row. */
function tagOf(turn: number): string {
  return `cluster-${turn}`;
}

async function ask(
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
        'idempotency-key': tagOf(turn),
        'x-request-id': tagOf(turn),
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

async function outcomeOf(
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
      // Jobs that a response with 200 or 202 named.
      accepted: accepted.size,
      charged: rows.filter(({ status, charges: one }) => status === 'completed' && one > 0).length,
      released: rows.filter(({ status, charges: one }) => status === 'failed' && one === 0).length,
      // Tags of accepted requests whose job is unknown or not settled.
      lost: [...accepted.keys()].filter((tag) => !known.has(tag)),
      twice: [...charges].filter(([, times]) => times > 1).map(([tag]) => tag),
      // Times from the moment at which a request was due to the end of its job.
      middleSeconds: quantile(seconds, 0.5),
      slowestSeconds: seconds.at(-1) ?? 0,
    };
  } finally {
    await database.end();
  }
}

/** Compares the requests of a load, each with its own Idempotency-Key, with their jobs. */
export type LoadOutcome = Awaited<ReturnType<typeof runLoad>>;
