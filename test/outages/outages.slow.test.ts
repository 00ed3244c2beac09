/**
 * Servers that the gateway needs stop and return: its processes keep running, callers receive 503
 * with Retry-After, and no accepted job is lost. `FAULTS=all` adds the slow tests (docs/faults.md).
 */
import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { requestPatiently, type PatientAnswer } from '../faults/caller.ts';
import { createCalls, shortChat, states } from '../faults/calls.ts';
import { audit } from '../faults/cell.ts';
import { startStack, type FaultStack } from '../faults/stack.ts';

const isFaultRun = process.env['FAULTS'] === 'all';
const path = '/api/v1/studio/image/generate';

let stack: FaultStack;
let calls: ReturnType<typeof createCalls>;
let pids: number[];
beforeAll(async () => {
  stack = await startStack();
  calls = createCalls(stack);
  pids = [stack.getPid('api'), stack.getPid('worker')];
});
afterEach(async () => {
  expect([stack.getPid('api'), stack.getPid('worker')]).toEqual(pids);
  expect(stack.takeLost()).toEqual([]);
  await expect
    .poll(() => stack.query(`SELECT id FROM reservation WHERE state = 'reserved'`))
    .toEqual([]);
  expect(await audit(stack)).toEqual([]);
});
afterAll(() => stack.close());

/** Makes a request that is repeated until its job has ended. */
function run(prompt: string): Promise<PatientAnswer> {
  const settings = { urls: [stack.url], path, key: stack.caller.key, body: { prompt } };
  return requestPatiently({ ...settings, tag: `outage-${randomUUID()}`, timeoutMs: 100_000 });
}

const readReadiness = async (): Promise<number> => (await calls.request('/readyz')).status;
const away = {
  status: 503,
  retryAfter: expect.any(String),
  body: { error: 'SERVICE_UNAVAILABLE' },
};
const draw = (prompt: string) => calls.request(path, { body: { prompt } });
/** The calls of open jobs that the provider has accepted. */
const acceptedCalls = () =>
  stack.query<{ job_id: string }>(`SELECT c.job_id FROM provider_call c
    JOIN job j ON j.id = c.job_id WHERE c.state = 'accepted' AND j.status = 'open'`);

/** Sends requests until `stop` is called; every job must be completed. */
function load(count: number): { answered: () => number; stop: () => Promise<PatientAnswer[]> } {
  const stopping = new AbortController();
  const answers: PatientAnswer[] = [];
  const loops = Array.from({ length: count }, async (_, loop) => {
    for (let index = 0; !stopping.signal.aborted; index += 1)
      answers.push(await run(`load ${loop} ${index}`));
  });
  return {
    answered: () => answers.length,
    async stop() {
      stopping.abort();
      await Promise.all(loops);
      return answers;
    },
  };
}

/** Returns the statuses that callers received and that an outage of Postgres must not cause. */
const findUnexpected = (answers: readonly PatientAnswer[]): number[] =>
  answers
    .flatMap(({ statuses }) => statuses)
    .filter((status) => ![200, 202, 409, 503].includes(status));

describe('Postgres', () => {
  it('that cuts every connection, idle or busy, causes no error except 503', async () => {
    const running = load(4);
    for (let cut = 0; cut < 5; cut += 1) {
      await sleep(300);
      await stack.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()`);
    }
    await expect.poll(running.answered).toBeGreaterThan(4);
    const answers = await running.stop();
    expect(answers.filter(({ outcome }) => outcome !== 'completed')).toEqual([]);
    expect(findUnexpected(answers)).toEqual([]);
    await expect.poll(readReadiness).toBe(200);
  });

  it.runIf(isFaultRun)(
    'with a long outage receives no writes from a job that waits for its charge, and charges it within a minute',
    async () => {
      const jobId = await calls.start('[[slow:1500ms]] a patient job');
      await calls.untilAccepted(jobId);
      await stack.kill('postgres');
      const pending = () =>
        calls.withTemporal(async ({ workflow }) => {
          const { raw } = await workflow.getHandle(jobId).describe();
          return raw.pendingActivities?.map(({ activityType }) => activityType?.name);
        });
      await expect.poll(pending, { timeout: 30_000 }).toEqual(['charge']);
      const events = () =>
        calls.withTemporal(async ({ workflow }) => {
          const history = await workflow.getHandle(jobId).fetchHistory();
          return history.events?.length ?? 0;
        });
      const before = await events();
      await sleep(60_000);
      // One attempt a minute.
      expect((await events()) - before).toBeLessThanOrEqual(1);
      await stack.start('postgres');
      await calls.untilState(jobId, states.paid);
    },
  );

  it.runIf(isFaultRun)(
    'that is killed causes 503 with Retry-After, and requests succeed within five seconds of its return',
    async () => {
      const running = [run('[[slow:1500ms]] a job under way'), run('[[slow:2500ms]] another one')];
      await expect.poll(acceptedCalls).not.toEqual([]);
      await stack.kill('postgres');
      expect(await readReadiness()).toBe(503);
      expect(await draw('a job in vain')).toMatchObject(away);
      expect(await calls.request('/api/v1/usage')).toMatchObject(away);
      expect((await calls.request('/healthz')).status).toBe(200);
      await stack.start('postgres');
      await expect.poll(readReadiness, { timeout: 5000 }).toBe(200);
      const answers = await Promise.all(running);
      expect(answers.map(({ outcome }) => outcome)).toEqual(['completed', 'completed']);
    },
  );

  it.runIf(isFaultRun)(
    'that is frozen causes 503 instead of hanging requests, and no requests pile up',
    async () => {
      const running = run('[[slow:3s]] a job in the ice');
      await expect
        .poll(() => stack.query(`SELECT id FROM job WHERE status = 'open'`))
        .not.toEqual([]);
      const rss = residentBytes(stack.getPid('api'));
      stack.freeze('postgres', true);
      const startedAtMs = performance.now();
      const requests = Array.from({ length: 200 }, (_, index) => draw(`ice ${index}`));
      const answers = await Promise.all(requests).finally(() => stack.freeze('postgres', false));
      expect(performance.now() - startedAtMs).toBeLessThan(40_000);
      await expect.poll(readReadiness, { timeout: 5000 }).toBe(200);
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
      expect(answers[0]).toMatchObject(away);
      expect(residentBytes(stack.getPid('api')) - rss).toBeLessThan(150e6);
      expect((await running).outcome).toBe('completed');
    },
  );

  it.runIf(isFaultRun && canMount())(
    'with a full disk causes 503 until space is free',
    async () => {
      const mount = join(stack.directory, 'small');
      mkdirSync(mount);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', mount]);
      const tables = ['job', 'ledger_entry', 'reservation', 'idempotency_claim'];
      const move = async (space: string): Promise<void> => {
        for (const table of tables)
          await stack.query(`ALTER TABLE ${table} SET TABLESPACE ${space}`);
      };
      const filler = join(mount, 'filler');
      try {
        const place = join(mount, 'place');
        mkdirSync(place);
        const { uid, gid } = statSync(join(stack.directory, 'postgres'));
        chownSync(place, uid, gid);
        await stack.query(`CREATE TABLESPACE small LOCATION '${place}'`);
        await move('small');
        try {
          writeFileSync(filler, Buffer.alloc(9e6));
        } catch {
          // Written until the disk is full.
        }
        const noise = Array.from({ length: 60 }, () => run(`a page of ${makeNoise(1900)}`));
        await sleep(6000);
        rmSync(filler);
        const answers = await Promise.all(noise);
        expect(answers.filter(({ outcome }) => outcome !== 'completed')).toEqual([]);
        expect(answers.flatMap(({ statuses }) => statuses)).toContain(503);
        expect(findUnexpected(answers)).toEqual([]);
      } finally {
        rmSync(filler, { force: true });
        await move('pg_default');
        await stack.query('DROP TABLESPACE small');
        execFileSync('umount', [mount]);
      }
    },
  );
});

it('Temporal that is down causes 503; webhooks are kept and delivered, and an API that starts meanwhile waits', async () => {
  const running = Array.from({ length: 4 }, (_, index) => run(`[[slow:900s]] clock ${index}`));
  await expect.poll(acceptedCalls).toHaveLength(4);
  // A notification of an earlier test may still be in progress.
  const jobs = (await acceptedCalls()).map(({ job_id: id }) => id);
  await stack.kill('temporal');
  await calls.sandbox<object>('faults', undefined, 'DELETE');
  // A load balancer continues to send requests that need no Temporal.
  await expect
    .poll(() => calls.request('/readyz'))
    .toMatchObject({
      status: 200,
      body: { status: 'degraded', checks: { postgres: true, temporal: false, serving: true } },
    });
  const chat = await calls.request('/api/v1/chat', { body: shortChat });
  expect(chat).toMatchObject({ status: 200 });
  const notifications =
    'SELECT FROM provider_notification WHERE state = ANY($1) AND job_id = ANY($2)';
  const readNotifications = (...among: string[]) => stack.query(notifications, [among, jobs]);
  await expect.poll(() => readNotifications('received')).toHaveLength(4);
  expect(await draw('no clock')).toMatchObject(away);

  const booting = stack.start('api2');
  const probe = async (target: string): Promise<number> =>
    fetch(stack.getUrl('api2') + target).then(
      ({ status }) => status,
      () => 0,
    );
  await expect.poll(() => probe('/healthz')).toBe(200);
  expect(await probe('/readyz')).toBe(503);
  await stack.start('temporal');
  await booting;
  expect(await probe('/healthz')).toBe(200);
  await expect.poll(readReadiness).toBe(200);
  const answers = await Promise.all(running);
  expect(answers.map(({ outcome }) => outcome)).toEqual(answers.map(() => 'completed'));
  // `late`: the workflow's own check was earlier than the repeated notification.
  await expect.poll(() => readNotifications('delivered', 'late')).toHaveLength(4);
  expect(await stack.end('api2')).toBe(0);
});

describe('a provider that fails in the middle of a pipeline', () => {
  const steps = [
    { id: 'art', use: 'image/generate', body: { prompt: 'a harbour' } },
    { id: 'cut', use: 'image/remove-background', body: { imageUrl: { $from: 'art' } } },
    { id: 'large', use: 'image/upscale', body: { imageUrl: { $from: 'cut' } }, maxCredits: 100 },
  ];
  /** Sends a request for a pipeline, and returns its job when it has ended. */
  async function runPipeline(target: string, body: object) {
    const answer = await calls.request(target, { body: { async: true, ...body } });
    expect(answer).toMatchObject({ status: 202 });
    const { jobId } = answer.body.data;
    const read = async () => (await calls.request(`/api/v1/studio/jobs/${jobId}`)).body.data;
    await expect.poll(async () => (await read()).done, { timeout: 120_000 }).toBe(true);
    return { ...(await read()), jobId };
  }
  const toCutOut = (faults: string) => () =>
    calls.sandbox<object>('faults', { match: 'birefnet', faults });
  const clear = () => calls.sandbox<object>('faults', undefined, 'DELETE');

  it.each([
    ['refuses connections', () => stack.kill('sandbox'), () => stack.start('sandbox')],
    ['answers 503', toCutOut('submit:503'), clear],
    ['accepts and answers 500', toCutOut('fail:500'), clear],
  ])(
    'and %s is paid once for each step, also after the pipeline is resumed',
    async (_, fail, recover) => {
      stack.control.arm('between-steps', async ({ call }) => call === 1);
      const running = runPipeline('/api/v1/studio/pipelines', { steps });
      await expect.poll(() => stack.control.arrived().size).toBe(1);
      await fail();
      stack.control.release();
      const first = await running;
      expect(first.result.steps).toMatchObject([
        { id: 'art', status: 'completed', credits: 3.9 },
        { id: 'cut', status: 'failed', credits: 0 },
        { id: 'large', status: 'skipped', credits: 0 },
      ]);
      await recover();
      const second = await runPipeline(`/api/v1/studio/jobs/${first.jobId}/resume`, {});
      expect(second.result.steps).toMatchObject([
        { id: 'art', status: 'completed', credits: 0 },
        { id: 'cut', status: 'completed' },
        { id: 'large', status: 'completed' },
      ]);
      const [, cut, large] = second.result.steps;
      expect([first.billing.charged, second.billing.charged]).toEqual([
        3.9,
        (cut?.credits ?? 0) + (large?.credits ?? 0),
      ]);
      expect(await calls.countAccepted(second.jobId)).toBe(2);
    },
  );
});

/** Returns the resident memory of a process. */
function residentBytes(pid: number): number {
  const kilobytes = execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' });
  return Number(kilobytes.trim()) * 1024;
}

/** Returns whether this process may mount a tmpfs, which can be filled without filling a real disk. */
function canMount(): boolean {
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' });
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
}

/** Makes text that cannot be compressed. */
function makeNoise(length: number): string {
  let text = '';
  while (text.length < length) text += randomUUID();
  return text.slice(0, length);
}
