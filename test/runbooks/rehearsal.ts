/**
 * A gateway of real processes, runbooks whose commands run unchanged, and their alerts, which
 * Prometheus’ own promtool evaluates over the metrics of these processes.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { expect } from 'vitest';
import { alertRules, findPromtool } from '../deploy/alert-rules.ts';
import { readSelectors } from '../deploy/expressions.ts';
import { readBlocks } from '../docs/markdown.ts';
import { runInTerminal } from '../docs/terminal.ts';
import { createCalls, states } from '../faults/calls.ts';
import { startStack, type FaultStack, type Part } from '../faults/stack.ts';
import { readPage } from '../telemetry/page.ts';

const project = fileURLToPath(new URL('../../', import.meta.url));
export const studioPath = '/api/v1/studio/image/generate';
/** Interval between runs of a command until it prints what is expected: each run takes half a second of CPU. */
export const commandPollMs = 2500;

/** Starts Postgres, Temporal, the sandbox, an API and a worker, as they are deployed. */
export async function startRehearsal(env: Record<string, string> = {}) {
  const settings = { AUDIT_INTERVAL_MS: '500', SYNC_WAIT_MS: '2000', ...env };
  const stack = await startStack({ asDeployed: true, env: settings });
  const calls = { ...createCalls(stack), ...createSteps(stack) };
  return {
    stack,
    ...calls,
    ...createAlerts(stack),
    openPage: (name: string) => openPage(stack, name),
    /**
     * Follows a page: all of its commands must have run at the end, all processes must still run,
     * and the audit must find nothing.
     */
    async follow(name: string, steps: (page: RunbookPage) => Promise<void>): Promise<void> {
      const page = await openPage(stack, name);
      await steps(page);
      expect(page.left(), `commands of ${name}.md that were not run`).toEqual([]);
      expect(stack.takeLost(), 'processes that ended by themselves').toEqual([]);
      await calls.expectInOrder();
    },
  };
}

/** A running gateway with the steps of the runbook tests. */
export type Rehearsal = Awaited<ReturnType<typeof startRehearsal>>;

function createSteps(stack: FaultStack) {
  const { request, sandbox, start, readState, readSubmits, withTemporal } = createCalls(stack);
  return {
    /**
     * Starts an asynchronous job: an image of a model whose first check comes 90 s after the
     * submit, or a video.
     */
    start: (prompt: string, kind: 'image' | 'video' = 'image') =>
      start(prompt, kind === 'image' ? { model: 'alpha-image' } : {}, kind),
    /** Streams a chat to its end; returns the text of the response. */
    async stream(key: string, content: string, maxTokens: number): Promise<string> {
      const messages = [{ role: 'user', content }];
      const response = await fetch(`${stack.url}/api/v1/chat`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'gpt-4o', messages, stream: true, max_tokens: maxTokens }),
      });
      return response.text();
    },
    /** Repeats the page's `reverify` command for a job until the job is charged. */
    async untilReverified(page: RunbookPage, jobId: string): Promise<void> {
      const reverify = () =>
        page.admin('reverify', { 'job_…': jobId }).then(() => readState(jobId));
      await expect.poll(reverify, { interval: commandPollMs }).toEqual(states.paid);
    },
    /** Waits until the API shows this phase of a job. */
    async untilPhase(jobId: string, phase: string): Promise<void> {
      const read = async () => (await request(`/api/v1/studio/jobs/${jobId}`)).body.data.phase;
      await expect.poll(read).toBe(phase);
    },
    /** Sends fal's notification of a job (again); returns the status of the response. */
    notify: async (jobId: string, signature: 'good' | 'bad' = 'good'): Promise<number> => {
      const [submit] = await readSubmits(jobId);
      const path = `webhooks/${submit?.requestId}`;
      return (await sandbox<{ status: number }>(path, { signature })).status;
    },
    /** Injects faults into the sandbox (dev/sandbox/faults.ts). */
    breakProvider: (fault: { match?: string; faults: string }) => sandbox('faults', fault),
    mendProvider: () => sandbox('faults', undefined, 'DELETE'),
    /** Terminates the workflow of a job. */
    terminate: (jobId: string) =>
      withTemporal(({ workflow }) => workflow.getHandle(jobId).terminate('rehearsal')),
    /** Makes the open reservations and their jobs older, and moves what they use of budgets to their new day. */
    ageReservations: (interval: string) =>
      stack.query(
        `WITH aged AS (UPDATE reservation SET created_at = created_at - $1::interval
           WHERE state = 'reserved' RETURNING id, budget_id, amount, created_at),
         jobs AS (UPDATE job SET created_at = aged.created_at FROM aged WHERE job.id = aged.id)
         INSERT INTO budget_spend AS b SELECT budget_id, (at AT TIME ZONE 'UTC')::date, sum(spent) FROM (
           SELECT budget_id, created_at + $1::interval AS at, -amount AS spent FROM aged
           UNION ALL SELECT budget_id, created_at, amount FROM aged) AS moved
         WHERE budget_id IS NOT NULL GROUP BY 1, 2
         ON CONFLICT (budget_id, day) DO UPDATE SET spent = b.spent + excluded.spent`,
        [interval],
      ),
    /** Ends a process with SIGTERM, as a deployment does, and starts it again. */
    async restart(part: Part, build?: string): Promise<void> {
      expect(await stack.end(part)).toBe(0);
      await stack.start(part, build);
    },
    /** Waits until no reservation is open; then the audit must find nothing. */
    async expectInOrder(): Promise<void> {
      const page = await openPage(stack, 'README');
      const open = () => stack.query(`SELECT id FROM reservation WHERE state = 'reserved'`);
      await expect.poll(open).toEqual([]);
      expect(await page.admin('audit')).toBe('clean\n');
    },
  };
}

/** The values of all series at one time. */
interface Scrape {
  atMs: number;
  values: Map<string, number>;
}

/** Minutes over which the rules are evaluated: longer than their longest range and delay. */
const minutes = 200;

/**
 * Extrapolates metrics: the change between two scrapes is repeated every minute. Counters grow as
 * they grew, ages grow by a minute, times of a last success that did not move stay, and other
 * gauges stay.
 */
function extrapolate(
  names: readonly string[],
  { before, after }: { before: Scrape; after: Scrape },
) {
  const readName = (series: string): string => series.slice(0, series.indexOf('{'));
  const read = [...after.values].filter(([series]) => names.includes(readName(series)));
  return read.map(([series, value]) => {
    const grown = value - (before.values.get(series) ?? 0);
    const name = readName(series);
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

function createAlerts(stack: FaultStack) {
  async function scrape(): Promise<Scrape> {
    const selectors = alertRules.flatMap(({ expr }) => readSelectors(expr));
    const names = new Set(selectors.map(({ name }) => name));
    const values = new Map<string, number>();
    for (const part of ['api', 'worker', 'api2', 'worker2'] as const) {
      const url = stack.getMetricsUrl(part);
      if (url === null) continue;
      const page = await readPage(url);
      for (const name of names) {
        for (const { labels, value } of page.get(name) ?? []) {
          const all = Object.entries({ ...labels, instance: part });
          const selector = all.map(([label, text]) => `${label}="${text}"`).join();
          if (Number.isFinite(value)) values.set(`${name}{${selector}}`, value);
        }
      }
    }
    return { atMs: Date.now(), values };
  }

  /** Throws the output of promtool unless these alerts fire, or none of them does. */
  async function evaluate(before: Scrape, alerts: readonly string[], isFiring: boolean) {
    const testRules = await findPromtool();
    // Only CI requires promtool.
    if (typeof testRules === 'string') return;
    const after = await scrape();
    const names = alertRules
      .filter(({ alert }) => alerts.includes(alert))
      .flatMap(({ expr }) => readSelectors(expr).map(({ name }) => name));
    const promql_expr_test = alerts.map((alert) => {
      const labels = `{alertname="${alert}",alertstate="firing"}`;
      return {
        expr: isFiring ? `count(ALERTS${labels}) > bool 0` : `absent(ALERTS${labels})`,
        eval_time: `${minutes}m`,
        exp_samples: [{ labels: isFiring ? '{}' : labels, value: 1 }],
      };
    });
    const input_series = extrapolate(names, { before, after });
    const test = { interval: '1m', input_series, promql_expr_test };
    expect(await testRules([{ alerts, test }])).toContain('SUCCESS');
  }
  const untilEvaluated =
    (isFiring: boolean) =>
    (since: Scrape, ...alerts: string[]) => {
      const check = () => evaluate(since, alerts, isFiring).then(() => 'as expected', readMessage);
      return expect.poll(check, { timeout: 120_000, interval: commandPollMs }).toBe('as expected');
    };

  return {
    scrape,
    /** Waits until these alerts would fire if the changes since a scrape continued for hours. */
    untilFiring: untilEvaluated(true),
    /** Waits until none of these alerts would fire. */
    untilQuiet: untilEvaluated(false),
  };
}

const readMessage = (error: { stderr?: string } & Error): string => error.stderr ?? error.message;

/** A page of docs/runbooks/, whose commands are run. */
export type RunbookPage = Awaited<ReturnType<typeof openPage>>;

interface RunOptions {
  put?: Record<string, string>;
  status?: number;
  build?: string;
}

/** Opens a page, by its name without `.md`. */
async function openPage(stack: FaultStack, name: string) {
  const blocks = await readBlocks(`docs/runbooks/${name}.md`);
  const lines = blocks
    .filter(({ language }) => language === 'sh')
    .flatMap(({ text }) => text.split('\n'))
    .map((line) => line.replace(/\s+#.*$/, ''))
    .filter((line) => line !== '' && !line.startsWith('#'));
  // A page may contain a command twice.
  const commands = [...new Set(lines)];
  const statements = blocks.filter(({ language }) => language === 'sql').map(({ text }) => text);
  const left = new Set([...commands, ...statements]);

  function take(all: string[], begins: string, put: Record<string, string>): string {
    const found = all.filter((one) => one.startsWith(begins));
    expect(found, `${name}.md has one command that begins with: ${begins}`).toHaveLength(1);
    const [text = ''] = found;
    left.delete(text);
    const filled = Object.entries(put).reduce((filling, [placeholder, value]) => {
      expect(filling, `placeholders of ${name}.md`).toContain(placeholder);
      return filling.replaceAll(placeholder, value);
    }, text);
    expect(filled, `placeholders of ${name}.md`).not.toMatch(/(job|org|key)_…/);
    return filled;
  }

  /**
   * Runs the command of the page that begins with these words, with values for its placeholders
   * (`job_…`), in the folder of a build or of this project. Returns its output. It must end with
   * this status, by default 0.
   */
  async function run(
    begins: string,
    { put = {}, status = 0, build = project }: RunOptions = {},
  ): Promise<string> {
    const key = { STUDIO_ADMIN_KEY: stack.env['ADMIN_API_KEY'] ?? '' };
    const data = { DATA_DIR: join(stack.directory, 'no-local-stack') };
    const env = { ...stack.env, STUDIO_API_URL: stack.url, ...key, ...data };
    const command = take(commands, begins, put);
    const printed = await runInTerminal(command, { directory: build, project: build, env });
    expect(printed.status, `${begins}\n${printed.stdout}${printed.stderr}`).toBe(status);
    return printed.stdout;
  }

  /** Runs `npm run studio -- admin` with the command of the page that begins so; returns its output. */
  const admin = (command: string, put: Record<string, string> = {}, status = 0) =>
    run(`npm run studio -- admin ${command}`, { put, status });

  return {
    run,
    admin,
    /** Repeats such a command until its output matches. */
    untilAdmin: (command: string, output: RegExp, put: Record<string, string> = {}) =>
      expect.poll(() => admin(command, put), { interval: commandPollMs }).toMatch(output),
    /** Runs the SQL of the page that begins with these words; returns the rows of each statement. */
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
    /** Returns the commands and the SQL of the page that were not run. */
    left: () => [...left],
  };
}
