/**
 * Growth benchmark: fills the database with jobs and chats of a year, and compares what requests,
 * sums, searches, audits and the sweeper cost before and after.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { createUsageSums } from '../../ledger/usage-sums.ts';
import { findViolations, type AuditOptions } from '../../ledger/invariants.ts';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { startGateway, type RunningGateway } from './gateway.ts';
import { fillDatabase } from './growth-data.ts';
import { quantile } from './load.ts';
import { readUsage } from './process-usage.ts';
import { startServers, type Servers } from './servers.ts';
import type { Stops } from './stops.ts';

/** Options of `bench growth`. */
export interface GrowthOptions {
  jobs: number;
  chats: number;
  days: number;
  /** Number of requests of each measurement. */
  requests: number;
  /** Duration in seconds of the measurement of an idle gateway. */
  idleSeconds: number;
}

/** Result of one measurement with empty and with full tables. */
export interface GrowthRow {
  name: string;
  unit: string;
  empty: number | null;
  full: number;
}

interface Place {
  directory: string;
  started: Stops;
  report: (line: string) => void;
}

/** Share of one connection's time that the audit of all rows uses, as in a worker. */
const auditShare = 0.5;

/** Runs the benchmark. @throws Error if a request fails, or an audit finds a violation */
export async function measureGrowth(options: GrowthOptions, place: Place): Promise<GrowthRow[]> {
  const servers = await startServers(place.directory, place.started);
  const empty = await measureOnce(servers, options, place);
  place.report(`filling the database with ${options.jobs} jobs and ${options.chats} chats`);
  const filled = await fill(servers, options, place);
  const full = await measureOnce(servers, options, place);
  const compared = [...full].map(([name, { unit, value }]) => ({
    name,
    unit,
    empty: empty.get(name)?.value ?? null,
    full: value,
  }));
  return [...filled, ...compared];
}

/** Returns a figure that only full tables have. */
const row = (name: string, unit: string, full: number): GrowthRow => ({
  name,
  unit,
  empty: null,
  full,
});

async function fill(
  { plan: { databaseUrl } }: Servers,
  { jobs, chats, days }: GrowthOptions,
  { report }: Place,
): Promise<GrowthRow[]> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ organizationId: string; keyIds: string[] }>(
    'SELECT organization_id AS "organizationId", array_agg(id) AS "keyIds" FROM api_key GROUP BY 1',
  );
  const [owner] = rows;
  if (!owner) throw new Error('the database has no API key');
  await client.query(`UPDATE organization SET created_at = now() - interval '${days + 1} days'`);
  const fillSeconds = await time(() =>
    fillDatabase(databaseUrl, { jobs, chats, days, ...owner }, (day) => {
      if (day % 30 === 0) report(`filled ${day} of ${days} days`);
    }),
  );
  const pool = await openDatabase({
    url: databaseUrl,
    poolMax: 1,
    logger: createLogger('bench', 'warn'),
  });
  const usageSums = createUsageSums(pool);
  const closeSeconds = await time(async () => {
    while ((await usageSums.closeDays()) > 0);
  });
  await pool.end();
  await client.query('VACUUM ANALYZE usage_day');
  const { rows: sizes } = await client.query<{ bytes: string }>(
    'SELECT pg_database_size(current_database()) AS bytes',
  );
  await client.end();
  return [
    row('filling the database', 's', fillSeconds / 1000),
    row('summing up all days', 's', closeSeconds / 1000),
    row('database', 'MB', Number(sizes[0]?.bytes) / 1e6),
  ];
}

async function time(run: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await run();
  return performance.now() - startedAt;
}

type Figures = Map<string, { unit: string; value: number }>;

/** Measures everything on a new gateway, in which no other work runs. */
async function measureOnce(
  servers: Servers,
  options: GrowthOptions,
  place: Place,
): Promise<Figures> {
  const { databaseUrl } = servers.plan;
  const gateway = await startGateway(
    servers,
    { name: 'growth', checkout: null, databaseUrl },
    // The audits of the worker would run at the same time as the measured ones.
    { env: { AUDIT_INTERVAL_MS: '0' }, hasWorker: true },
  );
  place.started.push(gateway.stop);
  const figures: Figures = new Map();
  const record: RecordFigure = (name, unit, value) => {
    figures.set(name, { unit, value });
    place.report(`${name}: ${value.toFixed(1)} ${unit}`);
  };
  for (const [name, request] of listRequests(servers, gateway)) {
    await request();
    record(`${name}, p50`, 'ms', quantile(await timeRequests(request, options.requests), 0.5));
  }
  const chat = createRequest(servers, gateway, ['POST', '/chat', chatBody]);
  await measureAudits({ databaseUrl, chat, requests: options.requests }, record);
  await measureIdle({ ...gateway.pids, postgres: servers.pids.postgres }, options, record);
  await gateway.stop();
  return figures;
}

/** Records a figure. */
type RecordFigure = (name: string, unit: string, value: number) => void;

/** Returns the durations of repeated requests in milliseconds, sorted. */
async function timeRequests(request: () => Promise<void>, count: number): Promise<number[]> {
  const timesMs: number[] = [];
  while (timesMs.length < count) timesMs.push(await time(request));
  return timesMs.toSorted((one, other) => one - other);
}

async function measureAudits(
  { databaseUrl, chat, requests }: AuditedGateway,
  record: RecordFigure,
): Promise<void> {
  const audit = async (scope: AuditOptions['scope'], share: number): Promise<void> => {
    const { findings } = await findViolations(databaseUrl, { scope, share });
    if (findings.length > 0) {
      throw new Error(`the audit found ${JSON.stringify(findings.slice(0, 5))}`);
    }
  };
  // At least 20 chats, so that the slowest one is above the 95th percentile.
  const alone = await timeRequests(chat, Math.max(20, requests * 5));
  record('chat, p95', 'ms', quantile(alone, 0.95));
  const during: number[] = [];
  const audited = new AbortController();
  const chatting = (async () => {
    while (!audited.signal.aborted) during.push(await time(chat));
  })();
  const auditMs = await time(() => audit('all', auditShare)).finally(() => audited.abort());
  await chatting;
  record('audit of all rows, at half speed', 's', auditMs / 1000);
  const sorted = during.toSorted((one, other) => one - other);
  record('chat during the audit of all rows, p95', 'ms', quantile(sorted, 0.95));
  // That audit has found right what was before it, so this one checks what has changed since.
  const changesMs = await time(() => audit('changes', 1));
  record('audit of the changes', 'ms', changesMs);
}

interface AuditedGateway {
  databaseUrl: string;
  /** Sends a chat. */
  chat: () => Promise<void>;
  requests: number;
}

async function measureIdle(
  pids: { [name: string]: number },
  { idleSeconds }: GrowthOptions,
  record: RecordFigure,
): Promise<void> {
  const before = readUsage(pids);
  await sleep(idleSeconds * 1000);
  for (const [name, { cpuMs, residentBytes }] of Object.entries(readUsage(pids))) {
    const usedMs = cpuMs - (before[name]?.cpuMs ?? 0);
    record(`${name} without requests`, '% of a core', usedMs / 10 / idleSeconds);
    record(`${name}, memory`, 'MB', residentBytes / 1e6);
  }
}

const chatBody = {
  model: 'gpt-5-nano',
  messages: [{ role: 'user', content: 'Hello' }],
  max_tokens: 20,
};
const imageBody = { model: 'nano-banana', prompt: 'a quiet harbour' };

type Request = ['GET' | 'POST', string, object?];

/** Returns the function that sends a request. @throws Error if the answer is not a success */
function createRequest(
  { apiKeys }: Servers,
  { url }: RunningGateway,
  [method, path, body]: Request,
) {
  return async (): Promise<void> => {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKeys[0]}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok)
      throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
  };
}

const since = (days: number): string =>
  `after=${new Date(Date.now() - days * 86_400_000).toISOString()}`;

function listRequests(servers: Servers, gateway: RunningGateway) {
  const requests: { [name: string]: Request } = {
    chat: ['POST', '/chat', chatBody],
    'acceptance of an image': ['POST', '/studio/image/generate', { ...imageBody, async: true }],
    'image, synchronous': ['POST', '/studio/image/generate', imageBody],
    usage: ['GET', '/usage'],
    'jobs by tag': ['GET', '/studio/jobs?metadata[team]=team-3'],
    'jobs by type': ['GET', '/studio/jobs?type=imageEdit'],
    'count of jobs': ['GET', '/studio/jobs/count'],
    'count of failed jobs': ['GET', '/studio/jobs/count?status=failed'],
    'count of canceled jobs': ['GET', '/studio/jobs/count?status=canceled'],
    'count of jobs by search': ['GET', '/studio/jobs/count?search=misty'],
    'search, frequent text': ['GET', '/studio/jobs?search=lighthouse'],
    'search, rare text': ['GET', '/studio/jobs?search=for+campaign+17'],
    'search, no match': ['GET', '/studio/jobs?search=nothing+of+this+kind'],
    'search, end of an id': ['GET', '/studio/jobs?search=8000000000000'],
    'usage summary of 30 days, by day': ['GET', `/usage/summary?groupBy=day&${since(30)}`],
    'usage summary of a year, by model': ['GET', `/usage/summary?groupBy=model&${since(365)}`],
    'usage summary of a year, by team': [
      'GET',
      `/usage/summary?groupBy=metadata.team&${since(365)}`,
    ],
  };
  return Object.entries(requests).map(
    ([name, request]) => [name, createRequest(servers, gateway, request)] as const,
  );
}

const format = (value: number | null): string =>
  value === null ? '' : value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(2)));

/** Formats the results as a Markdown table. */
export function formatGrowth(rows: readonly GrowthRow[]): string {
  return ['| | empty | full |', '| --- | --- | --- |']
    .concat(
      rows.map(
        ({ name, unit, empty, full }) => `| ${name} | ${format(empty)} | ${format(full)} ${unit} |`,
      ),
    )
    .join('\n');
}
