/**
 * Postgres as it fails in operation: a server that becomes read-only, a listening connection that
 * dies without an error, a pooler in transaction mode, and an address that cannot be used.
 */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { useGateway, useOwnGateway, type TestCaller } from '../harness/gateway.ts';
import { startPgBouncer, startPostgresProxy } from '../harness/postgres-proxy.ts';
import { runProgram } from '../harness/programs.ts';
import { until, untilHolds } from '../harness/until.ts';

const path = '/api/v1/studio/image/generate';
const shortChat = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'hello' }] };

describe('a server that is read-only', () => {
  const gateway = useOwnGateway({ latencyMs: 3000 }, 'last');
  const name = (): string => new URL(gateway.database.url).pathname.slice(1);
  /** Makes all sessions of the gateway read-only, as after a failover, or new ones writable. */
  async function setReadOnly(isReadOnly: boolean): Promise<void> {
    const setting = `ALTER DATABASE ${name()} SET default_transaction_read_only = ${isReadOnly}`;
    await gateway.database.query(setting);
    if (!isReadOnly) return;
    await gateway.database.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`);
  }

  it('causes 503 on every route, and the end of its jobs is recorded afterwards', async () => {
    const jobId = await gateway.startImage({ prompt: 'a job that ends meanwhile' });
    const sound = { prompt: '[[slow:4s]] a door', async: true };
    const { body } = await gateway.call('/api/v1/studio/sfx/generate', { body: sound });
    const soundId = body.data.jobId;
    await Promise.all([jobId, soundId].map((id) => gateway.untilAccepted(id)));
    await setReadOnly(true);
    const image = { body: { prompt: 'in vain' } };
    await until(async () => (await gateway.call(path, image)).status === 503);
    const answers = await Promise.all([
      gateway.call(path, image),
      gateway.call('/api/v1/chat', { body: shortChat }),
      gateway.call('/api/v1/usage'),
      gateway.call('/api/v1/api-keys'),
      gateway.call(`/api/v1/studio/jobs/${jobId}`),
      gateway.call('/api/v1/storage/upload-url', { body: {} }),
      gateway.admin('/organizations', { name: 'in vain' }),
    ]);
    for (const answer of answers) {
      expect(answer).toMatchObject({ status: 503, body: { error: 'SERVICE_UNAVAILABLE' } });
      expect(answer.headers.get('retry-after')).toBe('2');
    }
    expect(await gateway.call('/readyz')).toMatchObject({
      status: 503,
      body: { status: 'not ready', checks: { postgres: false } },
    });
    // The provider delivers meanwhile, so that its answer cannot be recorded.
    await new Promise((resolve) => setTimeout(resolve, 4000));
    await setReadOnly(false);
    // The sessions of the gateway are still read-only: it must leave them by itself.
    const isWell = async () => (await gateway.call(path, image)).status === 200;
    await expect.poll(isWell).toBe(true);
    expect((await gateway.call('/readyz')).status).toBe(200);
    for (const id of [jobId, soundId]) {
      expect((await gateway.untilDone(id)).body.data).toMatchObject({
        status: 'completed',
        billing: { state: 'charged' },
      });
      expect(await gateway.sandbox.submits({ jobId: id })).toHaveLength(1);
    }
    // A request that got 503 may have started a job, too.
    const calls = `SELECT provider, state FROM provider_call WHERE job_id IN ('${jobId}', '${soundId}')
      ORDER BY provider`;
    await untilHolds(async () =>
      expect(await gateway.database.query(calls)).toEqual([
        { provider: 'elevenlabs', state: 'answered' },
        { provider: 'fal', state: 'accepted' },
      ]),
    );
  });
});

describe('a listening connection', () => {
  const gateway = useGateway({ settled: 'last' });
  let way: Awaited<ReturnType<typeof startPostgresProxy>>;
  let base: string;
  let poor: TestCaller;
  beforeAll(async () => {
    way = await startPostgresProxy(gateway.database.url);
    base = await gateway.startSecondApi({ DATABASE_URL: way.url });
    poor = await gateway.newCaller({ credits: 0 });
  });
  afterAll(() => way.close());
  const readPids = async () =>
    (
      await gateway.database.query<{ pid: number }>(`SELECT pid FROM pg_stat_activity
        WHERE query LIKE 'LISTEN%' AND datname = current_database()`)
    ).map(({ pid }) => pid);
  const reject = () => gateway.call(path, { base, key: poor.key, body: { prompt: 'too dear' } });

  it('that dies without an error delays no rejection by more than seconds, and is replaced', async () => {
    expect((await reject()).status).toBe(402);
    const before = await readPids();
    way.silence();
    const startedAtMs = performance.now();
    expect(await reject()).toMatchObject({ status: 402, body: { error: 'INSUFFICIENT_CREDITS' } });
    // Without the event, the caller waited for a minute.
    expect(performance.now() - startedAtMs).toBeLessThan(30_000);
    const readReport = () => gateway.call('/readyz', { base });
    const ready = { status: 200, body: { status: 'ready', checks: { notifications: true } } };
    await untilHolds(async () => expect(await readReport()).toMatchObject(ready));
    await until(async () => {
      const pids = await readPids();
      return pids.length === before.length && pids.some((pid) => !before.includes(pid));
    });
    expect((await reject()).status).toBe(402);
  });
});

describe('PgBouncer in transaction mode', () => {
  let bouncer: Awaited<ReturnType<typeof startPgBouncer>>;
  // Registered first, so that it runs after the gateway is closed.
  afterAll(() => bouncer.close());
  const gateway = useOwnGateway(
    {
      reach: async (databaseUrl) => {
        bouncer = await startPgBouncer(databaseUrl);
        return { DATABASE_URL: bouncer.url, DATABASE_LISTEN_URL: databaseUrl };
      },
    },
    'last',
  );

  it('serves jobs, chats and rejections with DATABASE_LISTEN_URL', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    const body = { prompt: 'over the pooler' };
    const answers = await Promise.all([
      ...Array.from({ length: 20 }, () => gateway.call(path, { body })),
      gateway.call('/api/v1/chat', { body: shortChat }),
      gateway.call(path, { key: poor.key, body }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([...Array(21).fill(200), 402]);
    expect(await gateway.call('/readyz')).toMatchObject({ body: { status: 'ready' } });
    expect((await gateway.admin('/audit')).status).toBe(200);
    const DATABASE_URL = bouncer.url;
    expect(await runProgram('platform/migrate.ts', [], { DATABASE_URL })).toMatchObject({
      stdout: 'schema is current\n',
    });
  });

  it('is refused by name if it rejects the parameters of a connection', async () => {
    const strict = await startPgBouncer(gateway.database.url, '');
    onTestFinished(() => strict.close());
    const settings = { ...gateway.env, API_PORT: '0', DATABASE_URL: strict.url };
    const { status, stderr } = await runProgram('api/main.ts', [], settings);
    const line = expect.stringContaining('api: DATABASE_URL: the pooler rejects the parameters of');
    expect([status, stderr.trim().split('\n')]).toEqual([1, [line]]);
  });

  it('is refused without it, or with an address that leads to the pooler', async () => {
    for (const [env, line] of [
      [{ DATABASE_LISTEN_URL: '' }, 'api: DATABASE_URL: notifications of Postgres do not arrive'],
      [{ DATABASE_LISTEN_URL: bouncer.url }, 'api: DATABASE_LISTEN_URL: notifications that are'],
    ] as const) {
      const settings = { ...gateway.env, API_PORT: '0', ...env };
      const { status, stderr } = await runProgram('api/main.ts', [], settings);
      expect([status, stderr.trim().split('\n')]).toEqual([1, [expect.stringContaining(line)]]);
    }
  });
});
