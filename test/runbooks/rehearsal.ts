/**
 * Shared parts of the runbook tests: a gateway of real processes, a page whose commands are run
 * unchanged, and its alerts, which Prometheus’ own promtool evaluates over the metrics of these
 * processes.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client as Temporal, Connection } from '@temporalio/client';
import { Client } from 'pg';
import { expect } from 'vitest';
import { findPromtool } from '../deploy/promtool.ts';
import { readExpressions, selectorsOf } from '../deploy/expressions.ts';
import { blocksOf } from '../docs/markdown.ts';
import { runInTerminal, type Printed } from '../docs/terminal.ts';
import { startStack, type FaultStack, type Part } from '../faults/stack.ts';
import { readPage } from '../telemetry/page.ts';

const project = fileURLToPath(new URL('../../', import.meta.url));

/** Starts Postgres, Temporal, the sandbox, an API and a worker, as they are deployed. */
export async function startRehearsal(env: Record<string, string> = {}) {
  const stack = await startStack({
    asDeployed: true,
    // Without them the stack makes no inputs, which nobody here needs.
    run: [],
    env: { AUDIT_INTERVAL_MS: '500', SYNC_WAIT_MS: '2000', ...env },
  });
  await Promise.all([stack.start('api'), stack.start('worker')]);
  const calls = callsOf(stack);
  return {
    stack,
    ...calls,
    ...alertsOf(stack),
    openPage: (name: string) => openPage(stack, name),
    /** Follows a page: what it says to run has to be run, all of it, and the money has to be in order afterwards. */
    async follow(name: string, steps: (page: RunbookPage) => Promise<void>): Promise<void> {
      const page = await openPage(stack, name);
      await steps(page);
      expect(page.left(), `${name}.md says this too`).toEqual([]);
      expect(stack.takeLost(), 'processes that ended by themselves').toEqual([]);
      await calls.expectInOrder();
    },
  };
}

/** A running gateway, and what is asked of it. */
export type Rehearsal = Awaited<ReturnType<typeof startRehearsal>>;

interface Asked {
  key?: string;
  body?: object;
  /** Another API than the first. */
  base?: string;
}

interface Answer {
  status: number;
  body: {
    error?: string;
    data: {
      jobId: string;
      status: string;
      phase: string;
      error: object | null;
      key: string;
      result: { images: { url: string }[] };
    };
    /** Of /api/v1/webhooks/secret. */
    secret: string;
  };
}

/** How a job stands, and the kinds of its ledger entries. */
export interface JobState {
  status: string;
  code: string | null;
  entries: string[];
}

/** States in which a job may end. */
export const ends = {
  paid: { status: 'completed', code: null, entries: ['reserve', 'charge'] },
  failed: (code: string): JobState => ({ status: 'failed', code, entries: ['reserve', 'release'] }),
};

function callsOf(stack: FaultStack) {
  const ask = async (
    path: string,
    { key = stack.caller.key, body, base = stack.url }: Asked = {},
  ): Promise<Answer> => {
    const answer = await fetch(base + path, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as Answer['body'] };
  };
  const stateOf = async (jobId: string): Promise<JobState | undefined> => {
    const [job] = await stack.query<JobState>(
      `SELECT status, error->>'code' AS code, ARRAY(SELECT e.kind::text FROM ledger_entry e
         WHERE e.reservation_id = j.id ORDER BY e.sequence) AS entries FROM job j WHERE id = $1`,
      [jobId],
    );
    return job;
  };
  const sandbox = async (path: string, body?: object, method = body ? 'POST' : 'GET') => {
    const answer = await fetch(`${stack.sandboxUrl}/_sandbox/${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const told: unknown = await answer.json();
    return told;
  };
  const submits = async (jobId: string) =>
    (await sandbox(`submits?jobId=${jobId}`)) as { requestId: string }[];
  return {
    /** A caller's request. */
    ask,
    /** Starts an asynchronous job: a picture, or a film, whose time is up sooner. */
    start: async (prompt: string, kind: 'image' | 'video' = 'image'): Promise<string> => {
      const answer = await ask(`/api/v1/studio/${kind}/generate`, {
        // A model whose provider is first asked after 90 s, where no notification came.
        body: { prompt, async: true, ...(kind === 'image' && { model: 'alpha-image' }) },
      });
      expect(answer).toMatchObject({ status: 202 });
      return answer.body.data.jobId;
    },
    stateOf,
    /** Waits until a job has ended so. */
    untilEnded: (jobId: string, state: JobState) =>
      expect.poll(() => stateOf(jobId), { timeout: 120_000 }).toEqual(state),
    /** Has a job ask its provider, by the page's command, until it is paid for. */
    untilReverified: (page: RunbookPage, jobId: string) =>
      expect
        .poll(
          async () => {
            await page.run('npm run studio -- admin reverify', { put: { 'job_…': jobId } });
            return stateOf(jobId);
          },
          { interval: 1000 },
        )
        .toEqual(ends.paid),
    /** Waits until a provider has accepted a job's call, and its id is on record. */
    untilTaken: (jobId: string) =>
      expect
        .poll(() => stack.query('SELECT state FROM provider_call WHERE job_id = $1', [jobId]))
        .toEqual([{ state: 'accepted' }]),
    /** Waits until a job tells its caller that it is in this phase. */
    untilPhase: (jobId: string, phase: string) =>
      expect
        .poll(async () => (await ask(`/api/v1/studio/jobs/${jobId}`)).body.data.phase)
        .toBe(phase),
    /** How often the provider accepted a job: its own log tells. */
    acceptedOf: async (jobId: string) => (await submits(jobId)).length,
    /** Has fal send the notification of a job (again); how it was answered. */
    notify: async (jobId: string, signature: 'good' | 'bad' = 'good'): Promise<number> => {
      const [submit] = await submits(jobId);
      const answer = await sandbox(`webhooks/${submit?.requestId}`, { signature });
      return (answer as { status: number }).status;
    },
    /** Breaks the sandbox in one way (dev/sandbox/faults.ts), or mends it. */
    breakProvider: (fault: { match?: string; faults: string }) => sandbox('faults', fault),
    mendProvider: () => sandbox('faults', undefined, 'DELETE'),
    /** Ends a job's workflow as nobody should. */
    async terminate(jobId: string): Promise<void> {
      const connection = await Connection.connect({ address: stack.env['TEMPORAL_ADDRESS'] ?? '' });
      await new Temporal({ connection }).workflow.getHandle(jobId).terminate('rehearsal');
      await connection.close();
    },
    /** Makes the open reservations older; what they use of budgets goes along, should midnight lie between. */
    ageReservations: (by: string) =>
      stack.query(
        `WITH aged AS (UPDATE reservation SET created_at = created_at - $1::interval
           WHERE state = 'reserved' RETURNING budget_id, amount, created_at)
         INSERT INTO budget_spend AS b SELECT budget_id, (at AT TIME ZONE 'UTC')::date, sum(spent) FROM (
           SELECT budget_id, created_at + $1::interval AS at, -amount AS spent FROM aged
           UNION ALL SELECT budget_id, created_at, amount FROM aged) AS moved
         WHERE budget_id IS NOT NULL GROUP BY 1, 2
         ON CONFLICT (budget_id, day) DO UPDATE SET spent = b.spent + excluded.spent`,
        [by],
      ),
    /** Ends a process as a deploy does, and starts it again. */
    async restart(part: Part, build?: string): Promise<void> {
      expect(await stack.end(part)).toBe(0);
      await stack.start(part, build);
    },
    /** Waits until nothing is reserved; then the audit has to be clean. */
    async expectInOrder(): Promise<void> {
      const page = await openPage(stack, 'README');
      const open = () => stack.query(`SELECT id FROM reservation WHERE state = 'reserved'`);
      await expect.poll(open).toEqual([]);
      const audit = await page.run('npm run studio -- admin audit');
      expect(audit.stdout).toBe('clean\n');
    },
  };
}

/** The values of a moment by series, as text that promtool reads, and when that was. */
interface Scrape {
  atMs: number;
  values: Map<string, number>;
}

/** Minutes over which the rules are evaluated: longer than any of them waits. */
const minutes = 200;

/**
 * What the series become when what happened between two scrapes happens in every minute from then on: counters go on
 * growing as they grew, ages grow, times of a last success that did not move stand still, other gauges stay.
 */
function seriesOf(before: Scrape, after: Scrape): { series: string; values: string }[] {
  return [...after.values].map(([series, value]) => {
    const grown = value - (before.values.get(series) ?? 0);
    const name = series.slice(0, series.indexOf('{'));
    if (/_(total|bucket|count|sum)$/.test(name)) {
      return { series, values: `${value}+${Math.max(0, grown)}x${minutes}` };
    }
    if (name.endsWith('_age_seconds')) {
      return { series, values: `${value}+${value > 0 ? 60 : 0}x${minutes}` };
    }
    if (name.endsWith('_timestamp_seconds')) {
      const moves = grown > 0 || !before.values.has(series);
      return { series, values: `${value - after.atMs / 1000}+${moves ? 60 : 0}x${minutes}` };
    }
    return { series, values: `${value}+0x${minutes}` };
  });
}

function alertsOf(stack: FaultStack) {
  async function scrape(): Promise<Scrape> {
    const names = new Set(
      (await readExpressions()).flatMap(selectorsOf).map((selector) => selector.name),
    );
    const values = new Map<string, number>();
    for (const part of ['api', 'worker', 'api2', 'worker2'] as const) {
      const url = stack.metricsUrlOf(part);
      if (url === null) continue;
      const page = await readPage(url);
      for (const name of names) {
        for (const { labels, value } of page.get(name) ?? []) {
          const all = Object.entries({ ...labels, instance: part });
          const text = all.map(([key, word]) => `${key}="${word}"`).join();
          if (Number.isFinite(value)) values.set(`${name}{${text}}`, value);
        }
      }
    }
    return { atMs: Date.now(), values };
  }

  /** Throws, with what promtool says, unless exactly the first ones fire of all that are named. */
  async function evaluate(before: Scrape, expected: { fire: string[]; rest: string[] }) {
    const testRules = await findPromtool();
    // Without a network only CI insists on it.
    if (typeof testRules === 'string') return;
    const after = await scrape();
    const rows = (alert: string): string => `ALERTS{alertname="${alert}",alertstate="firing"}`;
    const tests = [
      ...expected.fire.map((alert) => [`count(${rows(alert)}) > bool 0`, 1] as const),
      ...expected.rest.map((alert) => [`absent(${rows(alert)})`, 1] as const),
    ].map(([expr, value]) => ({
      expr,
      eval_time: `${minutes}m`,
      exp_samples: [{ labels: expr.startsWith('absent') ? absentLabels(expr) : '{}', value }],
    }));
    const file = join(stack.directory, 'alerts.test.json');
    const test = {
      rule_files: [join(project, 'deploy', 'prometheus', 'alerts.yml')],
      evaluation_interval: '1m',
      tests: [{ interval: '1m', input_series: seriesOf(before, after), promql_expr_test: tests }],
    };
    // JSON is YAML.
    await writeFile(file, JSON.stringify(test));
    expect(await testRules(file)).toContain('SUCCESS');
  }

  return {
    scrape,
    /** Waits until these alerts would fire if what happens since a scrape goes on for hours. */
    untilFiring: (since: Scrape, ...alerts: string[]) =>
      expect
        .poll(() => evaluate(since, { fire: alerts, rest: [] }).then(String, messageOf), {
          timeout: 120_000,
          interval: 500,
        })
        .toBe('undefined'),
    /** Waits until none of these would fire. */
    untilQuiet: (since: Scrape, ...alerts: string[]) =>
      expect
        .poll(() => evaluate(since, { fire: [], rest: alerts }).then(String, messageOf), {
          timeout: 120_000,
          interval: 500,
        })
        .toBe('undefined'),
  };
}

const absentLabels = (expr: string): string => /\{.*\}/.exec(expr)?.[0] ?? '{}';
const messageOf = (error: { stderr?: string } & Error): string => error.stderr ?? error.message;

/** A page below docs/runbooks/, whose commands are run. */
export interface RunbookPage {
  /**
   * Runs the command of the page that begins with these words, with values in place of what it leaves open
   * (`job_…`), in the folder of a build or of this project. It has to end with this status, 0 unless told.
   */
  run: (
    begins: string,
    options?: { put?: Record<string, string>; status?: number; build?: string },
  ) => Promise<Printed>;
  /** Runs the SQL of the page that begins so, as `psql` would; the rows of its last statement that has some. */
  sql: <Row extends object>(begins: string, put?: Record<string, string>) => Promise<Row[][]>;
  /** Commands and SQL of the page that were not run. */
  left: () => string[];
}

/** Opens a page, by its name without `.md`. */
async function openPage(stack: FaultStack, name: string): Promise<RunbookPage> {
  const blocks = await blocksOf(`docs/runbooks/${name}.md`);
  const lines = blocks
    .filter(({ language }) => language === 'sh')
    .flatMap(({ text }) => text.split('\n'))
    .map((line) => line.replace(/\s+#.*$/, ''))
    .filter((line) => line !== '' && !line.startsWith('#'));
  // A page may say twice to look at something.
  const commands = [...new Set(lines)];
  const statements = blocks.filter(({ language }) => language === 'sql').map(({ text }) => text);
  const left = new Set([...commands, ...statements]);

  function take(all: string[], begins: string, put: Record<string, string>): string {
    const found = all.filter((one) => one.startsWith(begins));
    expect(found, `${name}.md has one command that begins with: ${begins}`).toHaveLength(1);
    const [text = ''] = found;
    left.delete(text);
    const filled = Object.entries(put).reduce((so, [open, value]) => {
      expect(so, `${name}.md leaves it open`).toContain(open);
      return so.replaceAll(open, value);
    }, text);
    expect(filled, `${name}.md leaves nothing else open`).not.toMatch(/(job|org|key)_…/);
    return filled;
  }

  return {
    async run(begins, { put = {}, status = 0, build = project } = {}) {
      const { env, url } = stack;
      const printed = await runInTerminal(take(commands, begins, put), {
        directory: build,
        project: build,
        env: {
          ...env,
          STUDIO_API_URL: url,
          STUDIO_ADMIN_KEY: env['ADMIN_API_KEY'] ?? '',
          DATA_DIR: join(stack.directory, 'no-local-stack'),
        },
      });
      expect(printed.status, `${begins}\n${printed.stdout}${printed.stderr}`).toBe(status);
      return printed;
    },
    async sql<Row extends object>(begins: string, put: Record<string, string> = {}) {
      const client = new Client({ connectionString: stack.databaseUrl });
      await client.connect();
      try {
        const results = await client.query(take(statements, begins, put));
        return [results].flat().map(({ rows }) => rows as Row[]);
      } finally {
        await client.end();
      }
    },
    left: () => [...left],
  };
}
