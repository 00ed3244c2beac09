/**
 * Clocks of the API and the worker are an hour off, the clock of Postgres is not: windows, expiry and money use the database’s clock; provider notifications that look too old
 * are rejected, and jobs end by polling.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { requestPatiently } from '../faults/caller.ts';
import { createCalls } from '../faults/calls.ts';
import { audit, readJobs } from '../faults/cell.ts';
import { startStack, type FaultStack } from '../faults/stack.ts';

const shiftMs = 3_600_000;

describe.each([
  ['the API is ahead, the worker behind', shiftMs, -shiftMs],
  ['the API is behind, the worker ahead', -shiftMs, shiftMs],
])('%s', (_case, api, worker) => {
  let stack: FaultStack;
  let request: ReturnType<typeof createCalls>['request'];
  beforeAll(async () => {
    stack = await startStack({ clockShiftMs: { api, worker } });
    ({ request } = createCalls(stack));
  });
  afterAll(() => stack.close());

  it('jobs are delivered and charged once, although their provider notifications are rejected', async () => {
    const prompts = ['a sundial', '[[slow:2s]] an hourglass'];
    const requests = prompts.map((prompt) => ({ tag: `clock-${randomUUID()}`, body: { prompt } }));
    const path = '/api/v1/studio/image/generate';
    const to = { urls: [stack.url], path, key: stack.caller.key, timeoutMs: 60_000 };
    const answers = await Promise.all(requests.map((one) => requestPatiently({ ...to, ...one })));
    const completed = { outcome: 'completed', code: null };
    expect(answers).toMatchObject([completed, completed]);
    const jobs = await readJobs(
      stack,
      requests.map(({ tag }) => tag),
    );
    expect(jobs.map(({ entries }) => entries.join())).toEqual(['reserve,charge', 'reserve,charge']);
    expect(await stack.query('SELECT FROM provider_notification')).toEqual([]);
    // The sweeper, which releases overdue jobs, compares this deadline with the same clock.
    expect(
      await stack.query(
        `SELECT id FROM job WHERE deadline_at NOT BETWEEN now() AND now() + interval '11 minutes'`,
      ),
    ).toEqual([]);
    expect(stack.readLog('api')).toContain('provider_notification.rejected');
    expect(await audit(stack)).toEqual([]);
  });

  it('a key expires by the clock of the database', async () => {
    const create = (body: object) => request('/api/v1/api-keys', { body });
    const made = await create({ name: 'short', expiresAt: Date.now() + shiftMs / 2 });
    expect(made.status).toBe(200);
    const { key, keyId } = made.body as unknown as { key: string; keyId: string };
    const models = async () => (await request('/api/v1/models', { key })).status;
    expect(await models()).toBe(200);
    const expire = `UPDATE api_key SET expires_at = now() - interval '1 second' WHERE id = $1`;
    await stack.query(expire, [keyId]);
    expect(await models()).toBe(401);
    expect((await create({ name: 'gone', expiresAt: Date.now() - 1000 })).status).toBe(400);
  });

  it('the usage window opens and ends by the clock of the database', async () => {
    const { key } = await stack.newCaller(100, 50);
    const body = { prompt: 'a clock tower' };
    expect((await request('/api/v1/studio/image/generate', { key, body })).status).toBe(200);
    const { window } = (await request('/api/v1/usage', { key })).body;
    const leftMs = Date.parse(window.resetAt) - Date.now();
    expect(leftMs).toBeGreaterThan(6 * 3_600_000 - 60_000);
    expect(leftMs).toBeLessThanOrEqual(6 * 3_600_000);
  });
});
