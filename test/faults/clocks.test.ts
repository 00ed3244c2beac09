/**
 * Clocks of the API and the worker are an hour off, the clock of Postgres is not (reliability.md,
 * F7): windows, expiry and money use the database’s clock; provider notifications that look too old
 * are rejected, and jobs end by polling. Runs with `FAULTS=all`.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askPatiently } from './caller.ts';
import { audit, jobsOf } from './cell.ts';
import { startStack, type FaultStack } from './stack.ts';

const isWhole = process.env['FAULTS'] === 'all';
const shiftMs = 3_600_000;

describe.runIf(isWhole).each([
  ['the API is ahead, the worker behind', shiftMs, -shiftMs],
  ['the API is behind, the worker ahead', -shiftMs, shiftMs],
])('%s', (_case, api, worker) => {
  let stack: FaultStack;
  beforeAll(async () => {
    stack = await startStack({ clockShiftMs: { api, worker } });
  });
  afterAll(() => stack.close());

  async function call(path: string, body?: object, key = stack.caller.key) {
    const answer = await fetch(`${stack.url}/api/v1${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, string> };
  }

  it('jobs are delivered and charged once, although their provider notifications are rejected', async () => {
    const tags = [`clock-${randomUUID()}`, `clock-${randomUUID()}`];
    const answers = await Promise.all(
      ['a sundial', '[[slow:2s]] an hourglass'].map((prompt, index) =>
        askPatiently({
          urls: [stack.url],
          path: '/api/v1/studio/image/generate',
          key: stack.caller.key,
          tag: tags[index] ?? '',
          body: { prompt },
          timeoutMs: 60_000,
        }),
      ),
    );
    expect(answers.map(({ outcome }) => outcome)).toEqual(['completed', 'completed']);
    const jobs = await jobsOf(stack, tags);
    expect(jobs.map(({ entries }) => entries)).toEqual([
      ['reserve', 'charge'],
      ['reserve', 'charge'],
    ]);
    expect(await stack.query('SELECT FROM provider_notification')).toEqual([]);
    expect(stack.logOf('api')).toContain('provider_notification.refused');
    expect(await audit(stack)).toEqual([]);
  });

  it('a key expires by the clock of the database', async () => {
    const inHalfAnHour = Date.now() + shiftMs / 2;
    const made = await call('/api-keys', { name: 'short', expiresAt: inHalfAnHour });
    expect(made.status).toBe(200);
    expect((await call('/models', undefined, made.body['key'])).status).toBe(200);
    await stack.query(`UPDATE api_key SET expires_at = now() - interval '1 second' WHERE id = $1`, [
      made.body['keyId'],
    ]);
    expect((await call('/models', undefined, made.body['key'])).status).toBe(401);
    const gone = await call('/api-keys', { name: 'gone', expiresAt: Date.now() - 1000 });
    expect(gone.status).toBe(400);
  });

  it('the usage window opens and ends by the clock of the database', async () => {
    const caller = await stack.newCaller(100, 50);
    const body = { prompt: 'a clock tower' };
    expect((await call('/studio/image/generate', body, caller.key)).status).toBe(200);
    const usage = await fetch(`${stack.url}/api/v1/usage`, {
      headers: { authorization: `Bearer ${caller.key}` },
    });
    const { window } = (await usage.json()) as { window: { resetAt: string } };
    const leftMs = Date.parse(window.resetAt) - Date.now();
    expect(leftMs).toBeGreaterThan(6 * 3_600_000 - 60_000);
    expect(leftMs).toBeLessThanOrEqual(6 * 3_600_000);
  });
});
