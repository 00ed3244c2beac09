/** Credits, the six-hour window and Idempotency-Keys of Studio requests. */
import { describe, expect, it } from 'vitest';
import { searchAttributes } from '../../domain/job-contract.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

const path = '/api/v1/studio/image/generate';
/** Credits of one nano-banana image. */
const price = 3.9;

const generate = (caller: TestCaller, prompt: string, extra: object = {}, headers = {}) =>
  gateway.call(path, { key: caller.key, body: { prompt, ...extra }, headers });

/** Returns the ends of an organization's workflows. */
async function listEnds(organizationId: string): Promise<string[]> {
  const ends: string[] = [];
  const query = `OrganizationId = '${organizationId}'`;
  const listed = gateway.api.client.workflow.list({ query });
  for await (const { status, typedSearchAttributes } of listed) {
    ends.push(`${status.name}/${typedSearchAttributes.get(searchAttributes.jobStatus)}`);
  }
  return ends.toSorted();
}

it('an insufficient balance returns 402 with the missing credits each time, calls no provider, and completes the request after a grant', async () => {
  const poor = await gateway.newCaller({ credits: 3.8 });
  const { ledger } = gateway.api.services;
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
  expect(await gateway.database.jobs(organizationId)).toEqual([]);
  expect(await gateway.sandbox.submits({ match: prompt })).toEqual([]);
  const by = { actor: 'test', reason: 'test' };
  await ledger.grant({ organizationId, id: 'more', amountMicro: 10_000_000, ...by });
  expect((await generate(poor, prompt)).status).toBe(200);
  await expect
    .poll(() => listEnds(organizationId))
    .toEqual(['COMPLETED/completed', 'COMPLETED/rejected', 'COMPLETED/rejected']);
});

describe('the six-hour window', () => {
  it('rejects permanently a request that is larger than the whole window', async () => {
    const caller = await gateway.newCaller({ credits: 1000, windowCredits: 1 });
    const rejected = await generate(caller, 'a tower above the clouds');
    expect(rejected).toMatchObject({
      status: 402,
      body: { error: 'WINDOW_LIMIT_EXCEEDED', required: price, limit: 1 },
    });
    expect(rejected.headers.get('retry-after')).toBeNull();
  });

  it('returns the required and the remaining credits, and the end of the window', async () => {
    const caller = await gateway.newCaller({ credits: 1000, windowCredits: 5 });
    expect((await generate(caller, 'a small tower')).status).toBe(200);
    const { body } = await generate(caller, 'one more tower');
    const usage = await gateway.call<{ window: { resetAt: string } }>('/api/v1/usage', {
      key: caller.key,
    });
    expect(body).toMatchObject({
      error: 'WINDOW_EXHAUSTED',
      required: price,
      limit: 5,
      used: price,
      remaining: 1.1,
      resetAt: usage.body.window.resetAt,
    });
  });
});

describe('an Idempotency-Key', () => {
  const keyed = (key: string, prompt: string, extra: object = {}) =>
    generate(gateway.caller, prompt, extra, { 'idempotency-key': key });

  it('returns the same job for the same request, and rejects another request', async () => {
    const first = await keyed('order-1', 'a repeated gate', { async: true });
    await gateway.untilDone(first.body.data.jobId);
    const second = await keyed('order-1', 'a repeated gate', { async: true });
    expect(first.headers.get('idempotent-replayed')).toBeNull();
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(await gateway.database.jobs(gateway.caller.organizationId)).toHaveLength(1);
    expect(second.status).toBe(200);
    expect(await keyed('order-1', 'another gate')).toMatchObject({
      status: 422,
      body: { error: 'IDEMPOTENCY_KEY_REUSED' },
    });
  });

  it.each(['x'.repeat(256), 'two words', 'ümlaut'.normalize('NFC')])(
    'is rejected when malformed: %s',
    async (key) => {
      const answer = await keyed(key, 'a gate').catch((error: unknown) => error);
      // The HTTP client rejects values that are invalid in a header.
      if (answer instanceof Error) return;
      expect(answer).toMatchObject({ status: 400, body: { error: 'INVALID_REQUEST' } });
    },
  );
});
