import { describe, expect, it } from 'vitest';
import { searchAttributes } from '../../jobs/contract.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

const path = '/api/v1/studio/image/generate';
/** Credits of one nano-banana image. */
const price = 3.9;

const generate = (caller: TestCaller, prompt: string, extra: object = {}, headers = {}) =>
  gateway.call(path, { key: caller.key, body: { prompt, ...extra }, headers });

const grant = ({ organizationId }: TestCaller) =>
  gateway.api.services.ledger.grant({
    organizationId,
    id: 'more',
    amountMicro: 10_000_000,
    actor: 'test',
    reason: 'test',
  });

/** Returns the statuses of the workflows that Temporal lists. */
async function listed(query: string): Promise<string[]> {
  const ends: string[] = [];
  for await (const { status, typedSearchAttributes } of gateway.api.client.workflow.list({
    query,
  })) {
    ends.push(`${status.name}/${typedSearchAttributes.get(searchAttributes.jobStatus)}`);
  }
  return ends;
}

describe('an insufficient balance', () => {
  it('returns 402 with the missing credits each time, calls no provider, and completes the request after a grant', async () => {
    const poor = await gateway.newCaller({ credits: 3.8 });
    const { organizationId } = poor;
    const prompt = 'an unaffordable castle';
    for (let again = 0; again < 2; again += 1) {
      const answer = await generate(poor, prompt);
      expect(answer.status).toBe(402);
      expect(answer.body).toEqual({
        error: 'INSUFFICIENT_CREDITS',
        message: expect.any(String),
        requestId: expect.any(String),
        required: price,
        available: 3.8,
        reserved: 0,
      });
    }
    const jobs = 'SELECT 1 FROM job WHERE organization_id = $1';
    expect(await gateway.database.query(jobs, [organizationId])).toEqual([]);
    expect(await gateway.sandbox.submits({ match: prompt })).toEqual([]);
    await grant(poor);
    expect((await generate(poor, prompt)).status).toBe(200);
    const query = `OrganizationId = '${organizationId}'`;
    const workflows = ['COMPLETED/completed', 'COMPLETED/rejected', 'COMPLETED/rejected'];
    await expect.poll(async () => (await listed(query)).toSorted()).toEqual(workflows);
  });

  it('is never overspent by simultaneous requests: of 20, exactly 3 are charged', async () => {
    const caller = await gateway.newCaller({ credits: price * 3 });
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => generate(caller, 'a crowded castle')),
    );
    const statuses = answers.map((answer) => answer.status).toSorted();
    expect(statuses).toEqual([...Array(3).fill(200), ...Array(17).fill(402)]);
    expect(await gateway.database.balance(caller.organizationId)).toEqual({
      posted: 0,
      reserved: 0,
      available: 0,
    });
    expect(await gateway.sandbox.submits({ match: 'a crowded castle' })).toHaveLength(3);
  });
});

describe('the six-hour window', () => {
  it('rejects permanently a request that is larger than the whole window', async () => {
    const caller = await gateway.newCaller({ credits: 1000, windowCredits: 1 });
    const rejected = await generate(caller, 'a tower above the clouds');
    expect(rejected.status).toBe(402);
    expect(rejected.body).toMatchObject({
      error: 'WINDOW_LIMIT_EXCEEDED',
      required: price,
      limit: 1,
    });
    expect(rejected.headers.get('retry-after')).toBeNull();
  });

  it('returns the required and the remaining credits, and its end stays the same', async () => {
    const caller = await gateway.newCaller({ credits: 1000, windowCredits: 5 });
    expect((await generate(caller, 'a small tower')).status).toBe(200);
    const [first, second] = [
      await generate(caller, 'one more tower'),
      await generate(caller, 'yet another tower'),
    ];
    const usage = await gateway.call<{ window: { resetAt: string } }>('/api/v1/usage', {
      key: caller.key,
    });
    expect(first.body).toMatchObject({
      error: 'WINDOW_EXHAUSTED',
      required: price,
      limit: 5,
      used: price,
      remaining: 1.1,
      resetAt: usage.body.window.resetAt,
    });
    expect(second.body.resetAt).toBe(first.body.resetAt);
  });
});

describe('an Idempotency-Key', () => {
  const keyed = (caller: TestCaller, key: string, prompt: string, extra: object = {}) =>
    generate(caller, prompt, extra, { 'idempotency-key': key });

  it('returns the same job for the same request, and rejects another request', async () => {
    const first = await keyed(gateway.caller, 'order-1', 'a repeated gate', { async: true });
    await gateway.untilDone(first.body.data.jobId);
    const second = await keyed(gateway.caller, 'order-1', 'a repeated gate', { async: true });
    expect(first.headers.get('idempotent-replayed')).toBeNull();
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    const job = await gateway.database.query(
      `SELECT 1 FROM job WHERE request->>'prompt' = 'a repeated gate'`,
    );
    expect(job).toHaveLength(1);
    expect(second.status).toBe(200);
    const other = await keyed(gateway.caller, 'order-1', 'another gate');
    expect([other.status, other.body.error]).toEqual([422, 'IDEMPOTENCY_KEY_REUSED']);
  });

  it('is free again after a rejection', async () => {
    const poor = await gateway.newCaller({ credits: 1 });
    expect((await keyed(poor, 'order-4', 'a gate')).status).toBe(402);
    await grant(poor);
    const answer = await keyed(poor, 'order-4', 'a gate');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('idempotent-replayed')).toBeNull();
  });

  it('creates one job for 20 simultaneous requests', async () => {
    const caller = await gateway.newCaller({ credits: price * 20 });
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => keyed(caller, 'order-5', 'a busy gate')),
    );
    for (const answer of answers) expect([200, 409]).toContain(answer.status);
    for (const answer of answers.filter(({ status }) => status === 409)) {
      expect(answer.body.error).toBe('REQUEST_IN_PROGRESS');
      expect(answer.headers.get('retry-after')).toBe('1');
    }
    expect(answers.some(({ status }) => status === 200)).toBe(true);
    expect(await gateway.sandbox.submits({ match: 'a busy gate' })).toHaveLength(1);
    const balance = await gateway.database.balance(caller.organizationId);
    expect(balance?.available).toBe(price * 19 * 1e6);
  });

  it.each(['x'.repeat(256), 'two words', 'ümlaut'.normalize('NFC')])(
    'is rejected when malformed: %s',
    async (key) => {
      const answer = await keyed(gateway.caller, key, 'a gate').catch((error: unknown) => error);
      // The HTTP client rejects values that are invalid in a header.
      if (answer instanceof Error) return;
      expect(answer).toMatchObject({ status: 400, body: { error: 'INVALID_REQUEST' } });
    },
  );
});
