/**
 * Bodies with very many or deeply nested values, sent to a separate API process: it serves other
 * requests meanwhile, and frees the memory afterwards. A request without access to a route is
 * rejected before its body is read.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useOwnGateway, type TestCaller } from '../harness/gateway.ts';
import { openRequest, type RawRequest } from '../harness/raw-requests.ts';
import type { SpawnedProcess } from '../harness/running-gateway.ts';
import { callerEndpoints, operatorEndpoints } from '../harness/endpoints.ts';

// The test measures one API process, so no worker runs.
const gateway = useOwnGateway({ worker: false }, 'never');
let api: SpawnedProcess;
/** A caller with all scopes and no credits, so that a body accepted by mistake costs nothing. */
let poor: TestCaller;
/** A caller with a single scope and no credits. */
let smallest: TestCaller;
beforeAll(async () => {
  api = await gateway.spawn('api', { API_PORT: '0' });
  poor = await gateway.newCaller({ credits: 0 });
  smallest = await gateway.newCaller({ credits: 0, scopes: ['models:read'] });
  prober = new Worker(proberSource, {
    eval: true,
    workerData: { url: toUrl('/healthz'), pid: api.child.pid, shared: probeTimes.buffer },
  });
});
// `afterAll` hooks run in reverse order, so the prober ends before its API.
afterAll(() => prober.terminate());

const toUrl = (path: string): string => `http://127.0.0.1:${api.port}${path}`;
/** Every operation of the callers' API with a request body. */
const withBody = callerEndpoints.filter(({ takesBody }) => takesBody);
const posts = withBody.map(({ requestPath }) => requestPath);
const findMethod = (path: string): string =>
  withBody.find(({ requestPath }) => requestPath === path)?.method ?? 'POST';
const adminPosts = [
  ...operatorEndpoints.filter(({ method, takesBody }) => takesBody && method === 'POST'),
  { requestPath: '/api/admin/v1/temporal/codec/decode' },
].map(({ requestPath }) => requestPath);

const findKey = (path: string): string =>
  path.startsWith('/api/admin') ? gateway.config.ADMIN_API_KEY : poor.key;

const open = (path: string, key: string, bytes: number): RawRequest => {
  const type = { 'content-type': 'application/json', 'content-length': bytes };
  return openRequest(toUrl(path), { authorization: `Bearer ${key}`, ...type }, findMethod(path));
};

/** Sends a body, and returns the status of the response. */
function send(path: string, body: string | Buffer, key = findKey(path)): Promise<number | 'cut'> {
  const { client, status } = open(path, key, Buffer.byteLength(body));
  client.end(body);
  return status;
}

/**
 * Requests the API's health repeatedly from a separate thread, and reports the CPU time of the API's
 * main thread during each request, which excludes other load on this machine.
 */
const proberSource = `
  const { workerData: { url, pid, shared } } = require('node:worker_threads');
  const { readFileSync } = require('node:fs');
  const { get, Agent } = require('node:http');
  const agent = new Agent({ keepAlive: true });
  const times = new Float64Array(shared);
  const msPerTick = 10;
  const computedMs = () => {
    const stat = readFileSync('/proc/' + pid + '/task/' + pid + '/stat', 'latin1');
    const [user, system] = stat.slice(stat.lastIndexOf(')') + 2).split(' ').slice(11);
    return (Number(user) + Number(system)) * msPerTick;
  };
  const probe = () => {
    const startedAt = computedMs();
    const tell = () => (times[0] = Math.max(times[0], computedMs() - startedAt));
    // A probe that is not answered at all is slow, too.
    const telling = setInterval(tell, 50);
    get(url, { agent }, (answer) => {
      answer.resume().on('end', () => {
        clearInterval(telling);
        tell();
        setTimeout(probe, 2);
      });
    });
  };
  probe();`;
let prober: Worker;
const probeTimes = new Float64Array(new SharedArrayBuffer(8));

/** Maximum CPU time of a probe in milliseconds while another request is parsed, on a quiet machine. One with two cores needs half of it. */
const probeMsMax = 200;

const referenceText = JSON.stringify(
  Array.from({ length: 100_000 }, (_, index) => ({ a: index, b: `x${index}` })),
);
/** CPU time of parsing the reference on a quiet machine, milliseconds. */
const quietReferenceMs = 20;
/** Returns how many times as much CPU the same work takes now, because programs on the same core make each other slower; at least 1. */
function measureSlowdown(): number {
  const before = process.threadCpuUsage();
  JSON.parse(referenceText);
  const { user, system } = process.threadCpuUsage(before);
  return Math.max(1, (user + system) / 1000 / quietReferenceMs);
}

/**
 * Returns the CPU time of the slowest probe during `run` in milliseconds of a quiet machine. Repeats a slow run, because a
 * garbage collection may have delayed it.
 */
async function measureSlowestProbe(run: () => Promise<unknown>): Promise<number> {
  let best = Infinity;
  for (let times = 0; times < 3 && best > probeMsMax; times += 1) {
    probeTimes[0] = 0;
    await run();
    // The last probe may still be running.
    await sleep(10);
    const computedMs = probeTimes[0];
    best = Math.min(best, computedMs > probeMsMax ? computedMs / measureSlowdown() : computedMs);
  }
  return best;
}

const repeatValue = (spelled: string, bytes: number): string =>
  Array.from({ length: Math.floor(bytes / (spelled.length + 1)) }, () => spelled).join();
const repeatNames = (bytes: number): string =>
  Array.from({ length: Math.floor(bytes / 11) }, (_, at) => `"k${at}":1`).join();

/** JSON of about this many bytes, in the place that a route looks at. */
const wide: [string, (bytes: number) => string][] = [
  ['numbers', (bytes) => `[${repeatValue('1', bytes)}]`],
  ['empty arrays', (bytes) => `[${repeatValue('[]', bytes)}]`],
  ['empty objects', (bytes) => `[${repeatValue('{}', bytes)}]`],
  ['empty texts', (bytes) => `[${repeatValue('""', bytes)}]`],
  ['parts of no type', (bytes) => `[${repeatValue('{"type":"x"}', bytes)}]`],
  ['pictures without a URL', (bytes) => `[${repeatValue('{"type":"image_url"}', bytes)}]`],
  ['names', (bytes) => `{${repeatNames(bytes)}}`],
  ['escapes', (bytes) => `"${'\\u0041'.repeat(bytes / 6)}"`],
  ['surrogates, one alone', (bytes) => `"${'\\ud83d\\ude00'.repeat(bytes / 12)}\\ud83d"`],
  ['backslashes', (bytes) => `"${'\\\\'.repeat(bytes / 2)}"`],
  ['digits', (bytes) => '9'.repeat(bytes)],
  ['spaces', (bytes) => `1${' '.repeat(bytes)}`],
  ['a long text', (bytes) => `"${'x'.repeat(bytes)}"`],
  ['a long text beyond ASCII', (bytes) => `"${'é'.repeat(bytes / 2)}"`],
  ['brackets that never close', (bytes) => '['.repeat(bytes)],
];
const user = '{"role":"user","content":"a"}';
const toChat = (fields: string): string => `{"model":"gpt-4o",${fields}}`;
const toContent = (spelled: string) => toChat(`"messages":[{"role":"user","content":${spelled}}]`);
/** The parts of a chat request that may have many values. */
const placesOfChat: [string, (spelled: string) => string][] = [
  ['content', toContent],
  ['messages', (spelled) => toChat(`"messages":${spelled}`)],
  ['tool_calls', (spelled) => toChat(`"messages":[{"role":"assistant","tool_calls":${spelled}}]`)],
  ...['tools', 'logit_bias', 'metadata', 'prediction'].map(
    (field): [string, (spelled: string) => string] => [
      field,
      (spelled) => toChat(`"messages":[${user}],"${field}":${spelled}`),
    ],
  ),
  ['nothing known', (spelled) => `{"zz":${spelled}}`],
];
const megabyte = 1_000_000;

describe('a request without access to a route is rejected before its body is read', () => {
  /** Returns the status that arrives while a body is announced and none is sent. */
  async function readStatusBeforeBody(path: string, key: string): Promise<number | 'cut' | 'none'> {
    const { client, status } = open(path, key, 5000);
    const received = await Promise.race([status, sleep(60_000, 'none' as const)]);
    client.destroy();
    return received;
  }
  const expectAll = async (key: string, status: number, paths = posts): Promise<void> => {
    const statuses = await Promise.all(
      paths.map(async (path) => ({ path, status: await readStatusBeforeBody(path, key) })),
    );
    expect(statuses).toEqual(paths.map((path) => ({ path, status })));
  };

  it('without a key', () => expectAll('gk_live_none', 401));

  it('with a key that lacks the scope', () => expectAll(smallest.key, 403));

  it('as a viewer', async () => {
    const viewer = await gateway.newCaller({ credits: 0 });
    await gateway.database.query(`UPDATE app_user SET role = 'viewer' WHERE id = $1`, [
      viewer.userId,
    ]);
    const spending = posts.filter((path) => !path.includes('/storage/'));
    await expectAll(viewer.key, 403, spending);
  });

  it('for a suspended organization', async () => {
    const suspended = await gateway.newCaller({ credits: 0 });
    await gateway.operate(`/organizations/${suspended.organizationId}/suspend`, {});
    await expectAll(suspended.key, 403);
  });

  it('with a key that is over its rate limit', async () => {
    const limited = await gateway.newCaller({ credits: 0 });
    await gateway.database.query(
      `INSERT INTO rate_window (owner_id, bucket, started_at, hits)
         VALUES ($1, 'requests', clock_timestamp(), $2)`,
      [limited.keyId, gateway.config.RATE_LIMIT_PER_MINUTE],
    );
    await expectAll(limited.key, 429);
  });
});

describe('other requests are served during a hostile body', () => {
  const rejected = [400, 413, 'cut'];

  it('of 19 MB from a key with a single scope', async () => {
    const statuses: unknown[] = [];
    const bodies = wide
      .slice(0, 2)
      .map(([, spell]) => Buffer.from(`{"prompt":${spell(19 * megabyte)}}`));
    for (const [at, path] of posts.entries()) {
      const body = bodies[at % bodies.length] ?? '';
      let status: unknown;
      const slowest = await measureSlowestProbe(async () => {
        status = await send(path, body, smallest.key);
      });
      if ((status !== 403 && status !== 'cut') || slowest > probeMsMax) {
        statuses.push({ path, status, slowest });
      }
    }
    expect(statuses).toEqual([]);
  });

  it.each(wide)('of 19 MB on chat: %s', async (_what, spell) => {
    const slow: unknown[] = [];
    for (const [place, put] of [placesOfChat[0], placesOfChat.at(-1)].filter((each) => !!each)) {
      const body = Buffer.from(put(spell(19 * megabyte)));
      let status: unknown;
      const slowest = await measureSlowestProbe(async () => {
        status = await send('/api/v1/chat/completions', body);
      });
      // A plain text is valid, so it is rejected for missing credits.
      if (![...rejected, 402].includes(status as number) || slowest > probeMsMax) {
        slow.push({ place, status, slowest });
      }
    }
    expect(slow).toEqual([]);
  });

  it.each(wide)('with as many values as the limit allows, on chat: %s', async (what, spell) => {
    const shape = wide.findIndex(([name]) => name === what);
    // Some are beyond what a body may hold, and some are at its edge. Each place gets half of the larger ones, in turn.
    for (const [bytes, turns] of [
      [90_000, 1],
      [500_000, 2],
    ] as const) {
      const spelled = spell(bytes);
      const slow: unknown[] = [];
      for (const [place, put] of placesOfChat.filter((_, at) => (at + shape) % turns === 0)) {
        const body = Buffer.from(put(spelled));
        const slowest = await measureSlowestProbe(() => send('/api/v1/chat/completions', body));
        if (slowest > probeMsMax) slow.push({ place, slowest });
      }
      expect(slow).toEqual([]);
    }
  });

  const paths = [...posts, ...adminPosts];
  // All routes read bodies by the same code, so each route gets one of the shapes, in turn.
  it.each(paths)('of up to 1 MB on %s', async (path) => {
    const slow: unknown[] = [];
    const [what, spell] = wide[paths.indexOf(path) % wide.length] ?? assert.fail();
    for (const body of [
      `{"prompt":${spell(900_000)}}`,
      `{"payloads":${spell(90_000)},"actor":${spell(90_000)},"scopes":${spell(90_000)},"prompt":""}`,
    ]) {
      let status: unknown;
      const slowest = await measureSlowestProbe(async () => {
        status = await send(path, body);
      });
      // Operators may hand payloads over that say nothing.
      const taken = status === 200 && path.endsWith('/decode');
      if (!(taken || rejected.includes(status as number)) || slowest > probeMsMax) {
        slow.push({ what, status, slowest });
      }
    }
    expect(slow).toEqual([]);
  });

  it('and its memory is freed afterwards', async () => {
    const { pid = 0 } = api.child;
    const rss = async (): Promise<number> =>
      Number(/VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
    const body = Buffer.from(toContent(`[${repeatValue('1', 19 * megabyte)}]`));
    const text = Buffer.from(toContent(`"${'x'.repeat(19 * megabyte)}"`));
    const before = await rss();
    for (let round = 0; round < 5; round += 1) {
      await Promise.all([body, text, text, text].map((each) => send('/api/v1/chat', each)));
    }
    await expect.poll(rss).toBeLessThan(before + 400);
  });
});
