/** More simultaneous workflow starts than the limit for Temporal. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller, type TestGateway } from '../harness/gateway.ts';
import { startWorkers } from '../harness/running-gateway.ts';

const path = '/api/v1/studio/image/generate';

/** Starts jobs at once, and returns the statuses of the responses. */
async function generateMany(gateway: TestGateway, count: number, prompt: string) {
  const { key } = await gateway.newCaller({ credits: 1000 });
  const answers = await Promise.all(
    Array.from({ length: count }, () => gateway.call(path, { key, body: { prompt } })),
  );
  return answers.map(({ status }) => status);
}

describe('workflow starts beyond the limit', () => {
  const gateway = useGateway({ env: { TEMPORAL_STARTS_MAX: '1' } });

  it('all succeed', async () => {
    expect(await generateMany(gateway, 6, 'a patient crane')).toEqual(Array(6).fill(200));
    expect(await gateway.sandbox.submits({ match: 'a patient crane' })).toHaveLength(6);
  });
});

describe('workflow starts without a running worker', () => {
  // No worker polls these task queues at first.
  const gateway = useGateway({
    env: {
      TASK_QUEUE_PREFIX: `${randomUUID()}-`,
      TEMPORAL_STARTS_MAX: '1',
    },
  });

  it('take turns and do not block each other: all wait in Temporal, and succeed', async () => {
    const start = async ({ key }: TestCaller) => {
      const answer = await gateway.call(path, {
        key,
        body: { prompt: 'an early crane', async: true },
      });
      expect(answer.status).toBe(202);
      const { jobId } = answer.body.data;
      await gateway.untilDone(jobId, key);
      const { startTime } = await gateway.getWorkflow(jobId).describe();
      return { key, startedAtMs: startTime.getTime() };
    };
    const [busy, other] = [await gateway.newCaller(), await gateway.newCaller()];
    const starting = [...Array.from({ length: 4 }, () => start(busy)), start(other)];
    // Each start holds the only slot for a second. All have started when the workers do.
    await sleep(6000);
    const stopWorkers = await startWorkers(gateway.config, gateway.api.services);
    const started = (await Promise.all(starting)).toSorted(
      (one, next) => one.startedAtMs - next.startedAtMs,
    );
    // Two starts of the busy organization may have come first: one for the slot, one for the next turn.
    expect(started.slice(0, 3).map(({ key }) => key)).toContain(other.key);
    await stopWorkers();
  });
});

describe('workflow starts while reservations are slow', () => {
  const gateway = useGateway({ env: { TEMPORAL_STARTS_MAX: '4' } });

  it('hold their slots until the reservation, as long as other jobs are reserved', async () => {
    const slow = await gateway.newCaller();
    const other = await gateway.newCaller({ credits: 100_000 });
    await gateway.database.query('BEGIN');
    await gateway.database.query('SELECT FROM account WHERE organization_id = $1 FOR UPDATE', [
      slow.organizationId,
    ]);
    const starting = Array.from({ length: 10 }, (_, index) =>
      gateway.call(path, {
        key: slow.key,
        body: { prompt: 'a slow crane', async: true },
        headers: { 'idempotency-key': `slow-${index}` },
      }),
    );
    const reservedAtMs = [performance.now()];
    const endAtMs = performance.now() + 4000;
    const keepReserving = async () => {
      while (performance.now() < endAtMs) {
        await gateway.startImage({ prompt: 'a quick crane' }, other.key);
        reservedAtMs.push(performance.now());
      }
    };
    await Promise.all([keepReserving(), keepReserving(), keepReserving()]);
    // A second without a reservation frees the slots; a slow machine may have such seconds.
    const idleSeconds = reservedAtMs
      .map((atMs, index) => Math.floor((atMs - (reservedAtMs[index - 1] ?? atMs)) / 950))
      .reduce((sum, seconds) => sum + seconds, 0);
    const states = await gateway.database.query<{ state: string }>(
      `SELECT state FROM idempotency_claim WHERE organization_id = $1 AND state <> 'held'`,
      [slow.organizationId],
    );
    await gateway.database.query('ROLLBACK');
    // An organization has half of the slots.
    expect(states.length).toBeGreaterThanOrEqual(2);
    expect(states.length).toBeLessThanOrEqual(2 * (1 + idleSeconds));
    for (const { status } of await Promise.all(starting)) expect(status).toBe(202);
  });
});

describe('a workflow start that exceeds its wait', () => {
  const gateway = useGateway({ env: { TEMPORAL_STARTS_MAX: '1', TEMPORAL_START_WAIT_MS: '1' } });

  it('gets 503 with Retry-After, starts and reserves nothing, and frees its Idempotency-Key', async () => {
    const { key, organizationId } = await gateway.newCaller({ credits: 1000 });
    const keyed = (index: number) =>
      gateway.call(path, {
        key,
        body: { prompt: `an impatient crane ${index}` },
        headers: { 'idempotency-key': `crane-${index}` },
      });
    const indexes = Array.from({ length: 8 }, (_, index) => index);
    const answers = await Promise.all(indexes.map(keyed));
    const served = answers.filter(({ status }) => status === 200).length;
    const rejected = indexes.filter((index) => answers[index]?.status === 503);
    expect(served).toBeGreaterThanOrEqual(1);
    expect(rejected.length).toBeGreaterThanOrEqual(1);
    expect(served + rejected.length).toBe(indexes.length);
    for (const index of rejected) {
      expect(answers[index]?.headers.get('retry-after')).toBe('2');
      expect(answers[index]?.body).toEqual({
        error: 'SERVICE_UNAVAILABLE',
        message: 'Too many jobs are waiting to start.',
        requestId: expect.any(String),
      });
    }
    expect(await gateway.database.jobs(organizationId)).toHaveLength(served);
    expect(await gateway.sandbox.submits({ match: 'an impatient crane' })).toHaveLength(served);
    const again = await keyed(rejected[0] ?? 0);
    expect(again.status).toBe(200);
    expect(again.headers.get('idempotent-replayed')).toBeNull();
  });
});
