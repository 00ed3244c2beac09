/** More simultaneous workflow starts than the limit for Temporal. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { useGateway, useOwnGateway, type TestGateway } from '../harness/gateway.ts';

const path = '/api/v1/studio/image/generate';

const generateMany = async (gateway: TestGateway, count: number, prompt: string) => {
  const caller = await gateway.newCaller({ credits: 1000 });
  const answers = await Promise.all(
    Array.from({ length: count }, () => gateway.call(path, { key: caller.key, body: { prompt } })),
  );
  return { caller, answers };
};

describe('workflow starts beyond the limit', () => {
  const gateway = useGateway({ env: { TEMPORAL_STARTS_MAX: '1' } });

  it('all succeed', async () => {
    const { answers } = await generateMany(gateway, 12, 'a patient crane');
    expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(200));
    expect(await gateway.sandbox.submits({ match: 'a patient crane' })).toHaveLength(12);
  });
});

describe('workflow starts without a running worker', () => {
  // No worker runs at first.
  const gateway = useOwnGateway({
    worker: false,
    env: { TEMPORAL_STARTS_MAX: '1', TEMPORAL_START_WAIT_MS: '150' },
  });

  it('do not block each other: all wait in Temporal, and succeed', async () => {
    const starting = generateMany(gateway, 6, 'an early crane');
    // Longer than the maximum wait for a workflow start.
    await sleep(300);
    await gateway.spawn('worker');
    const { answers } = await starting;
    expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(200));
  });
});

describe('a workflow start that exceeds its wait', () => {
  const gateway = useGateway({ env: { TEMPORAL_STARTS_MAX: '1', TEMPORAL_START_WAIT_MS: '1' } });

  it('gets 503 with Retry-After, starts nothing, reserves nothing and holds no Idempotency-Key', async () => {
    const { caller, answers } = await generateMany(gateway, 12, 'an impatient crane');
    const refused = answers.filter(({ status }) => status === 503);
    const served = answers.filter(({ status }) => status === 200);
    expect(served.length).toBeGreaterThanOrEqual(1);
    expect(refused.length).toBeGreaterThanOrEqual(1);
    expect(served.length + refused.length).toBe(12);
    for (const answer of refused) {
      expect(answer.headers.get('retry-after')).toBe('2');
      expect(answer.body).toEqual({
        error: 'SERVICE_UNAVAILABLE',
        message: 'Too many jobs are waiting to start.',
        requestId: expect.any(String),
      });
    }
    const jobs = await gateway.database.query('SELECT 1 FROM job WHERE organization_id = $1', [
      caller.organizationId,
    ]);
    expect(jobs).toHaveLength(served.length);
    expect(await gateway.sandbox.submits({ match: 'an impatient crane' })).toHaveLength(
      served.length,
    );
  });

  it('frees its Idempotency-Key for the next attempt', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    const keyed = (index: number) =>
      gateway.call(path, {
        key: caller.key,
        body: { prompt: `crane ${index}` },
        headers: { 'idempotency-key': `crane-${index}` },
      });
    const indexes = Array.from({ length: 12 }, (_, index) => index);
    const first = await Promise.all(indexes.map(keyed));
    const refused = indexes.filter((index) => first[index]?.status === 503);
    expect(refused.length).toBeGreaterThanOrEqual(1);
    for (const index of refused) {
      const again = await keyed(index);
      expect(again.status).toBe(200);
      expect(again.headers.get('idempotent-replayed')).toBeNull();
    }
  });
});
