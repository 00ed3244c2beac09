/**
 * Servers that the gateway needs stop and return: its processes keep running, callers receive 503
 * with Retry-After, and no accepted job is lost. `FAULTS=all` adds the slow tests (docs/faults.md).
 */
import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { runAudit } from '../../ledger/audit.ts';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { askPatiently, type PatientAnswer } from './caller.ts';
import { startStack, type FaultStack } from './stack.ts';

const isWhole = process.env['FAULTS'] === 'all';
const path = '/api/v1/studio/image/generate';

let stack: FaultStack;
let pids: number[];
beforeAll(async () => {
  stack = await startStack();
  pids = [stack.pidOf('api'), stack.pidOf('worker')];
});
afterEach(async () => {
  expect([stack.pidOf('api'), stack.pidOf('worker')]).toEqual(pids);
  expect(stack.takeLost()).toEqual([]);
  await expect
    .poll(() => stack.query(`SELECT id FROM reservation WHERE state = 'reserved'`))
    .toEqual([]);
  const logger = createLogger('test', 'silent');
  const pool = await openDatabase({ url: stack.databaseUrl, poolMax: 1, logger });
  const { checks } = await runAudit({ databaseUrl: stack.databaseUrl, pool });
  await pool.end();
  expect(checks.filter(({ subjects }) => subjects.length > 0)).toEqual([]);
});
afterAll(() => stack.close());

/** Makes a request that is repeated until its job has ended. */
function ask(prompt: string, urls: readonly string[] = [stack.url]): Promise<PatientAnswer> {
  return askPatiently({
    urls,
    path,
    key: stack.caller.key,
    tag: `outage-${randomUUID()}`,
    body: { prompt },
    timeoutMs: 100_000,
  });
}

interface Plain {
  status: number;
  retryAfter: string | null;
  error: unknown;
  tookMs: number;
}

async function once(target: string, body?: object): Promise<Plain> {
  const startedAt = performance.now();
  const answer = await fetch(stack.url + target, {
    method: body ? 'POST' : 'GET',
    headers: {
      authorization: `Bearer ${stack.caller.key}`,
      'content-type': 'application/json',
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const answerBody = (await answer.json()) as { error?: unknown };
  return {
    status: answer.status,
    retryAfter: answer.headers.get('retry-after'),
    error: answerBody.error,
    tookMs: performance.now() - startedAt,
  };
}

const readiness = async (): Promise<number> => (await once('/readyz')).status;
const away = { status: 503, error: 'SERVICE_UNAVAILABLE', retryAfter: expect.any(String) };

/** Sends requests until `stop` is called; every job must be completed. */
function load(count: number): { answered: () => number; stop: () => Promise<PatientAnswer[]> } {
  const stopping = new AbortController();
  const answers: PatientAnswer[] = [];
  const loops = Array.from({ length: count }, async (_, loop) => {
    for (let index = 0; !stopping.signal.aborted; index += 1)
      answers.push(await ask(`load ${loop} ${index}`));
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

/** Returns the statuses of all responses that callers received. */
const statusesOf = (answers: readonly PatientAnswer[]): number[] =>
  [...new Set(answers.flatMap(({ statuses }) => statuses))].toSorted((a, b) => a - b);

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
    expect(statusesOf(answers).filter((status) => ![200, 202, 409, 503].includes(status))).toEqual(
      [],
    );
    await expect.poll(readiness).toBe(200);
  });

  it.runIf(isWhole)(
    'with a long outage receives no writes from a job that waits for its charge, and charges it within a minute',
    async () => {
      const accepted = await once(path, { prompt: '[[slow:1500ms]] a patient job', async: true });
      expect(accepted.status).toBe(202);
      const [job] = await stack.query<{ id: string }>(
        `SELECT id FROM job WHERE status = 'open' ORDER BY id DESC LIMIT 1`,
      );
      const jobId = job?.id ?? '';
      await expect
        .poll(() => stack.query(`SELECT state FROM provider_call WHERE job_id = $1`, [jobId]))
        .toEqual([{ state: 'accepted' }]);
      await stack.kill('postgres');
      const connection = await Connection.connect({ address: stack.env['TEMPORAL_ADDRESS'] ?? '' });
      const handle = new Client({ connection }).workflow.getHandle(jobId);
      const pending = async () =>
        (await handle.describe()).raw.pendingActivities?.map(
          ({ activityType }) => activityType?.name,
        );
      await expect.poll(pending, { timeout: 30_000 }).toEqual(['charge']);
      const events = async () => (await handle.fetchHistory()).events?.length ?? 0;
      const before = await events();
      await sleep(60_000);
      // One attempt a minute.
      expect((await events()) - before).toBeLessThanOrEqual(1);
      await stack.start('postgres');
      await expect
        .poll(() => stack.query(`SELECT status FROM job WHERE id = $1`, [jobId]), {
          timeout: 60_000,
        })
        .toEqual([{ status: 'completed' }]);
      await handle.result();
      await connection.close();
    },
  );

  it.runIf(isWhole)(
    'that is killed causes 503 with Retry-After, and requests succeed within five seconds of its return',
    async () => {
      const running = [ask('[[slow:1500ms]] a job under way'), ask('[[slow:2500ms]] another one')];
      await expect
        .poll(() => stack.query(`SELECT job_id FROM provider_call WHERE state = 'accepted'`))
        .not.toEqual([]);
      await stack.kill('postgres');
      expect(await readiness()).toBe(503);
      expect(await once(path, { prompt: 'a job in vain' })).toMatchObject(away);
      expect(await once('/api/v1/usage')).toMatchObject(away);
      expect((await once('/healthz')).status).toBe(200);
      await stack.start('postgres');
      await expect.poll(readiness, { timeout: 5000 }).toBe(200);
      const answers = await Promise.all(running);
      expect(answers.map(({ outcome }) => outcome)).toEqual(['completed', 'completed']);
    },
  );

  it.runIf(isWhole)(
    'that is frozen causes 503 instead of hanging requests, and no requests pile up',
    async () => {
      const running = ask('[[slow:3s]] a job in the ice');
      await expect
        .poll(() => stack.query(`SELECT id FROM job WHERE status = 'open'`))
        .not.toEqual([]);
      const rss = residentBytes(stack.pidOf('api'));
      stack.freeze('postgres', true);
      const requests = Array.from({ length: 200 }, (_, index) =>
        once(path, { prompt: `ice ${index}` }),
      );
      const answers = await Promise.all(requests).finally(() => stack.freeze('postgres', false));
      await expect.poll(readiness, { timeout: 5000 }).toBe(200);
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
      expect(answers[0]).toMatchObject(away);
      expect(Math.max(...answers.map(({ tookMs }) => tookMs))).toBeLessThan(40_000);
      expect(residentBytes(stack.pidOf('api')) - rss).toBeLessThan(150e6);
      expect((await running).outcome).toBe('completed');
    },
  );

  it.runIf(isWhole && canMount())('with a full disk causes 503 until space is free', async () => {
    const mount = join(stack.directory, 'small');
    mkdirSync(mount);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', mount]);
    const tables = ['job', 'ledger_entry', 'reservation', 'idempotency_claim'];
    const move = async (space: string): Promise<void> => {
      for (const table of tables) await stack.query(`ALTER TABLE ${table} SET TABLESPACE ${space}`);
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
      const noise = Array.from({ length: 60 }, () => ask(`a page of ${noiseOf(1900)}`));
      await sleep(6000);
      rmSync(filler);
      const answers = await Promise.all(noise);
      expect(answers.filter(({ outcome }) => outcome !== 'completed')).toEqual([]);
      const statuses = statusesOf(answers);
      expect(statuses).toContain(503);
      expect(statuses.filter((status) => ![200, 202, 409, 503].includes(status))).toEqual([]);
    } finally {
      rmSync(filler, { force: true });
      await move('pg_default');
      await stack.query('DROP TABLESPACE small');
      execFileSync('umount', [mount]);
    }
  });
});

describe('Temporal', () => {
  it('that is down causes 503; webhooks are kept and delivered, and an API that starts meanwhile waits', async () => {
    const running = Array.from({ length: 4 }, (_, index) => ask(`[[slow:1500ms]] clock ${index}`));
    const acceptedCalls = () =>
      stack.query<{ job_id: string }>(`SELECT c.job_id FROM provider_call c
        JOIN job j ON j.id = c.job_id WHERE c.state = 'accepted' AND j.status = 'open'`);
    await expect.poll(async () => (await acceptedCalls()).length).toBe(4);
    // A notification of an earlier test may still be in progress.
    const jobs = (await acceptedCalls()).map(({ job_id: id }) => `'${id}'`).join(',');
    await stack.kill('temporal');
    const checks = async (): Promise<unknown> => (await fetch(`${stack.url}/readyz`)).json();
    await expect.poll(checks).toMatchObject({
      status: 'degraded',
      checks: { postgres: true, temporal: false, serving: true },
    });
    // A load balancer continues to send requests that need no Temporal.
    expect(await readiness()).toBe(200);
    const chat = { model: 'gpt-4o', messages: [{ role: 'user', content: 'hi' }], max_tokens: 20 };
    expect(await once('/api/v1/chat', chat)).toMatchObject({ status: 200 });
    const notified = async (state: string) =>
      (
        await stack.query(
          `SELECT job_id FROM provider_notification WHERE state = $1 AND job_id IN (${jobs})`,
          [state],
        )
      ).length;
    await expect.poll(() => notified('received')).toBe(4);
    expect(await once(path, { prompt: 'no clock' })).toMatchObject(away);

    const booting = stack.start('api2');
    const probe = async (target: string): Promise<number> =>
      fetch(stack.urlOf('api2') + target).then(
        ({ status }) => status,
        () => 0,
      );
    await expect.poll(() => probe('/healthz')).toBe(200);
    expect(await probe('/readyz')).toBe(503);
    await stack.start('temporal');
    await booting;
    expect(await probe('/healthz')).toBe(200);
    await expect.poll(readiness).toBe(200);
    const answers = await Promise.all(running);
    expect(answers.map(({ outcome }) => outcome)).toEqual(answers.map(() => 'completed'));
    await expect.poll(() => notified('received')).toBe(0);
    // `late`: the workflow's own check was earlier than the repeated notification.
    expect((await notified('delivered')) + (await notified('late'))).toBe(4);
    expect(await stack.end('api2')).toBe(0);
  });
});

describe('an object storage', () => {
  it('that is down for a while is retried, and the job is charged when the bytes are stored', async () => {
    const objects = join(stack.directory, 'storage', 'objects');
    const aside = `${objects}.aside`;
    await rename(objects, aside);
    // A file instead of the directory, so that no user can write an object.
    await writeFile(objects, '');
    const running = ask('a picture that waits for its wall');
    const accepted = async () =>
      (
        await stack.query(`SELECT c.job_id FROM provider_call c JOIN job j ON j.id = c.job_id
        WHERE c.state = 'accepted' AND j.status = 'open'`)
      ).length;
    await expect.poll(accepted).toBe(1);
    await sleep(1500);
    const charged = await stack.query(`SELECT id FROM reservation WHERE state = 'reserved'`);
    expect(charged).toHaveLength(1);
    await rm(objects);
    await rename(aside, objects);
    expect((await running).outcome).toBe('completed');
  });
});

function residentBytes(pid: number): number {
  const kilobytes = execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' });
  return Number(kilobytes.trim()) * 1024;
}

/** Creates a tmpfs, which can be filled without filling a real disk. */
function canMount(): boolean {
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' });
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
}

/** Makes text that cannot be compressed. */
function noiseOf(length: number): string {
  let words = '';
  while (words.length < length) words += randomUUID();
  return words.slice(0, length);
}
