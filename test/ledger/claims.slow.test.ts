/**
 * Idempotency-Keys under slow or lost requests: a request keeps its key while it waits, a request
 * that lost its key starts nothing, and no request releases a key that another request or a job
 * uses.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { untilSettled } from '../chat/chat-account.ts';
import { say } from '../chat/chat-clients.ts';
import { useGateway, type Answer, type TestCaller } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { startWorkers } from '../harness/running-gateway.ts';
import { until } from '../harness/until.ts';

const upscale = '/api/v1/studio/image/upscale';
const generate = '/api/v1/studio/image/generate';

// Its workers start and end during the tests, so they have task queues of their own.
const gateway = useGateway({
  settled: 'last',
  env: { TASK_QUEUE_PREFIX: `${randomUUID()}-`, VERDICT_WAIT_MS: '3000' },
});
/** Chooses the status of the image host's response. */
let chooseStatus: () => Promise<number>;
const respondAtOnce = (status: number) => {
  chooseStatus = () => Promise.resolve(status);
};
/** Makes the host wait for `respond`; `requested` resolves when a request waits there. */
function holdHost(): { requested: Promise<void>; respond: (status: number) => void } {
  const requested = Promise.withResolvers<void>();
  const status = Promise.withResolvers<number>();
  chooseStatus = () => {
    requested.resolve();
    return status.promise;
  };
  return { requested: requested.promise, respond: status.resolve };
}
let imageUrl: string;
beforeAll(async () => {
  const bytes = await drawDisc(300, 300);
  imageUrl = gateway.media.serve('/keyed.png', (response) => {
    void chooseStatus().then((status) =>
      response.writeHead(status).end(status === 200 ? bytes : ''),
    );
  });
});
/** Functions that stop the workers of one test. */
const stops: (() => Promise<void>)[] = [];
const startWorker = async (): Promise<void> => {
  stops.push(await startWorkers(gateway.config, gateway.api.services));
};
beforeEach(() => respondAtOnce(200));
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const newCaller = () => gateway.newCaller({ credits: 1000 });
const ask = (caller: TestCaller, path: string, body: object): Promise<Answer> =>
  gateway.call(path, { key: caller.key, headers: { 'idempotency-key': 'k' }, body });
const picture = () => ({ imageUrl, async: true });
/** Returns the subjects of the rows of a table that belong to the organization. */
async function readSubjects({ organizationId }: TestCaller, table = 'idempotency_claim') {
  const query = `SELECT subject_id FROM ${table} WHERE organization_id = $1`;
  const rows = await gateway.database.query<{ subject_id: string }>(query, [organizationId]);
  return rows.map(({ subject_id: subject }) => subject);
}
/** Returns the id of the job that a response names: 202, or 503 while no worker has the job. */
function findJob({ status, body }: Answer): string {
  expect(status).toBeOneOf([202, 503]);
  return status === 202 ? body.data.jobId : body.jobId;
}
/** Waits until a caller has exactly one job, which is completed. */
const untilCompleted = ({ organizationId }: TestCaller, id: string) =>
  expect
    .poll(() => gateway.database.jobs(organizationId))
    .toEqual([expect.objectContaining({ id, status: 'completed' })]);
/** Expires the claim of a stopped request. */
const expireClaim = ({ organizationId }: TestCaller) =>
  gateway.database.query(
    `UPDATE idempotency_claim SET held_until = clock_timestamp() - interval '1 second'
     WHERE organization_id = $1`,
    [organizationId],
  );
/** Takes over an Idempotency-Key from a running request. The request may renew its claim meanwhile. */
const takeOver = (caller: TestCaller) =>
  until(async () => {
    await expireClaim(caller);
    const answer = await ask(caller, upscale, picture());
    return answer.status !== 409 && findJob(answer);
  });
/** Locks the row of an account, like a long transaction, and returns a function that unlocks it. */
async function holdAccount({ organizationId }: TestCaller) {
  const client = new Client({ connectionString: gateway.database.url });
  await client.connect();
  await client.query('BEGIN');
  await client.query('SELECT FROM account WHERE organization_id = $1 FOR UPDATE', [organizationId]);
  return async () => {
    await client.query('ROLLBACK');
    await client.end();
  };
}
/** Longer than the lifetime of an idempotency claim that is not renewed. */
const beyondHoldMs = 11_000;

it('an Idempotency-Key of a waiting request stays reserved for that request, however slowly the image host responds', async () => {
  const caller = await newCaller();
  const host = holdHost();
  const first = ask(caller, upscale, picture());
  await expect.poll(() => readSubjects(caller)).toHaveLength(1);
  await sleep(beyondHoldMs);
  respondAtOnce(200);
  const second = await ask(caller, upscale, picture());
  expect([second.status, second.body.error]).toEqual([409, 'REQUEST_IN_PROGRESS']);
  expect(second.headers.get('retry-after')).toBe('1');
  host.respond(404);
  expect((await first).status).toBe(400);
  // The rejection has released the key.
  expect(await readSubjects(caller)).toEqual([]);
});

it.each([
  { hostStatus: 404, response: { status: 400 } },
  { hostStatus: 200, response: { status: 409, body: { error: 'REQUEST_IN_PROGRESS' } } },
])(
  'an Idempotency-Key that another request took over is not released by the former request, which starts nothing (image host: $hostStatus)',
  async ({ hostStatus, response }) => {
    await startWorker();
    const caller = await newCaller();
    const host = holdHost();
    const first = ask(caller, upscale, picture());
    await host.requested;
    respondAtOnce(200);
    const jobId = await takeOver(caller);
    host.respond(hostStatus);
    expect(await first).toMatchObject(response);
    expect(await readSubjects(caller)).toEqual([jobId]);
    await untilCompleted(caller, jobId);
    const third = await ask(caller, upscale, picture());
    expect(third.headers.get('idempotent-replayed')).toBe('true');
    await gateway.expectSettled();
  },
);

describe('an Idempotency-Key of a sent workflow start', () => {
  it('stays with that job although repeats are rejected, and so does its webhook', async () => {
    const caller = await newCaller();
    const body = { ...picture(), webhookUrl: gateway.receiver.at('/keyed') };
    const first = await ask(caller, upscale, body);
    expect(first.status).toBe(503);
    const { jobId } = first.body;
    expect(jobId).toMatch(/^job_/);
    await expireClaim(caller);
    respondAtOnce(404);
    const second = await ask(caller, upscale, body);
    expect(second.status).toBe(400);
    expect(await readSubjects(caller)).toEqual([jobId]);
    respondAtOnce(200);
    const third = await ask(caller, upscale, body);
    expect([third.status, third.body.jobId]).toEqual([503, jobId]);
    expect(await readSubjects(caller, 'webhook')).toEqual([jobId]);
    await startWorker();
    await untilCompleted(caller, jobId);
    const last = await ask(caller, upscale, body);
    expect(last.headers.get('idempotent-replayed')).toBe('true');
    await gateway.expectSettled();
  });

  it('keeps the files in the body of its request', async () => {
    const caller = await newCaller();
    const data = (await drawDisc(30, 30)).toString('base64');
    const body = { imageUrl: `data:image/png;base64,${data}`, async: true };
    const first = await ask(caller, upscale, body);
    expect(first.status).toBe(503);
    await startWorker();
    await untilCompleted(caller, first.body.jobId);
    const uploads = 'SELECT FROM upload WHERE organization_id = $1';
    expect(await gateway.database.query(uploads, [caller.organizationId])).toHaveLength(1);
  });

  it('is free again after the ledger rejects the job', async () => {
    const caller = await gateway.newCaller({ credits: 0 });
    await startWorker();
    const readStatus = async (): Promise<number> =>
      (await ask(caller, generate, { prompt: 'a poor tree' })).status;
    // A repeat of a started job gets the ledger's decision.
    await expect.poll(readStatus).toBe(402);
    expect(await readSubjects(caller)).toEqual([]);
    const { organizationId } = caller;
    const more = { id: 'more', amountMicro: 100_000_000, actor: 'test', reason: 'test' };
    await gateway.api.services.ledger.grant({ organizationId, ...more });
    await expect.poll(readStatus).toBe(200);
    await gateway.expectSettled();
  });
});

describe('a chat with an Idempotency-Key', () => {
  const chat = (caller: TestCaller, headers: Record<string, string> = { 'idempotency-key': 'k' }) =>
    gateway.call<{ error: string; content: string }>('/api/v1/chat', {
      key: caller.key,
      headers,
      body: { model: 'gpt-4o', messages: say('a') },
    });
  /** Expects that a caller has one chat, that it was charged, and that a repeated request receives its response. */
  async function expectOneChat(caller: TestCaller): Promise<void> {
    await gateway.api.services.chat.waitUntilIdle();
    expect((await chat(caller)).headers.get('idempotent-replayed')).toBe('true');
    expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'charged' });
  }

  it('is one chat when its reservation is slow, however often it is repeated', async () => {
    const caller = await newCaller();
    const release = await holdAccount(caller);
    // Its reservation waits for the lock and is canceled after ten seconds. The reservation of the next chat waits too.
    const unkeyed = chat(caller, {});
    await sleep(200);
    const first = chat(caller);
    await expect.poll(() => readSubjects(caller)).toHaveLength(1);
    expect((await unkeyed).status).toBe(503);
    await sleep(beyondHoldMs - 10_000);
    // A repeated request waits for the answer of the first one.
    const second = chat(caller);
    await sleep(1000);
    await release();
    const answers = await Promise.all([first, second]);
    expect(answers.map(({ status, body }) => [status, body.content])).toEqual([
      [200, answers[0].body.content],
      [200, answers[0].body.content],
    ]);
    expect(answers[1].headers.get('idempotent-replayed')).toBe('true');
    await expectOneChat(caller);
  });

  it('reserves nothing after it lost the key', async () => {
    const caller = await newCaller();
    const release = await holdAccount(caller);
    const first = chat(caller);
    const readSubject = async () => (await readSubjects(caller))[0];
    const own = await until(readSubject);
    await expireClaim(caller);
    const second = chat(caller);
    await expect.poll(readSubject).not.toBe(own);
    await release();
    const answers = await Promise.all([first, second]);
    expect(answers.map(({ status }) => status)).toEqual([409, 200]);
    expect(answers[0].body.error).toBe('REQUEST_IN_PROGRESS');
    await expectOneChat(caller);
    await gateway.expectSettled();
  });
});
