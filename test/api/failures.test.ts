import { chmod, rm, writeFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { untilHolds } from '../harness/until.ts';

const gateway = useGateway();

const generate = (prompt: string, extra: object = {}) =>
  gateway.call('/api/v1/studio/image/generate', { body: { prompt, ...extra } });

async function balance(): Promise<number> {
  return (await gateway.database.balance(gateway.caller.organizationId))?.available ?? 0;
}

describe('a failed job is released and returns its reason', () => {
  const table: [string, string, number, string][] = [
    ['the provider rejects the input', '[[fail:422]] a mountain', 400, 'PROVIDER_REJECTED_INPUT'],
    ['the input violates the content policy', '[[policy]] a mountain', 400, 'CONTENT_POLICY'],
    ['the provider fails', '[[fail-result:500]] a mountain', 500, 'PROVIDER_ERROR'],
    ['the result is malformed', '[[malformed-result]] a mountain', 500, 'PROVIDER_ERROR'],
    ['the result URL is dead', '[[dead-url]] a mountain', 500, 'PROVIDER_ERROR'],
    ['the result URL is private', '[[private-url]] a mountain', 500, 'PROVIDER_ERROR'],
    ['the picture is truncated', '[[truncated-media:silent]] a mountain', 500, 'PROVIDER_ERROR'],
    ['the picture is empty', '[[empty-media]] a mountain', 500, 'PROVIDER_ERROR'],
    ['the picture is a web page', '[[wrong-type-media]] a mountain', 500, 'PROVIDER_ERROR'],
  ];
  it.each(table)('%s', async (_name, prompt, status, code) => {
    const before = await balance();
    const answer = await generate(prompt);
    expect(answer.body).toMatchObject({ error: code, message: expect.any(String) });
    expect(answer.status).toBe(status);
    expect(await balance()).toBe(before);
    const job = await gateway.call(`/api/v1/studio/jobs/${answer.body.jobId}`);
    expect(job.body.data).toMatchObject({
      status: 'failed',
      error: { code },
      billing: { state: 'released', charged: 0 },
    });
    expect(await gateway.sandbox.submits({ jobId: answer.body.jobId })).toHaveLength(1);
  });

  it('does not name the provider in the message', async () => {
    const answer = await generate('[[fail:422]] a discreet mountain');
    expect(JSON.stringify(answer.body)).not.toContain(gateway.sandbox.url);
  });
});

describe('a submit that the provider certainly did not accept is sent again', () => {
  it.each([
    ['503 twice', '[[submit:503x2]] a river'],
    ['429 with a wait', '[[submit:429x1;retry-after=1]] a river'],
    ['a failed status check', '[[no-webhook]] [[status:500x2]] a river'],
    ['a failed read of the result', '[[result:502x1]] a river'],
  ])('%s', async (_name, prompt) => {
    const answer = await generate(prompt);
    expect(answer.status).toBe(200);
    const [job] = await gateway.database.query<{ id: string }>(
      'SELECT id FROM job ORDER BY created_at DESC LIMIT 1',
    );
    expect(await gateway.sandbox.submits({ jobId: job?.id ?? '' })).toHaveLength(1);
  });

  it('after the time in Retry-After', async () => {
    const startedAt = performance.now();
    const answer = await generate('[[submit:429x1;retry-after=2]] a patient river');
    expect(answer.status).toBe(200);
    expect(performance.now() - startedAt).toBeGreaterThan(2000);
  });

  it('but not after a permanent rejection', async () => {
    const answer = await generate('[[submit:401x1]] a forbidden river');
    expect(answer.body.error).toBe('PROVIDER_ERROR');
    expect(await gateway.sandbox.submits({ match: 'a forbidden river' })).toHaveLength(0);
  });
});

describe('a submit that the provider reports as failed', () => {
  it('ends the job at once, releases it, and is not sent again', async () => {
    const before = await balance();
    const startedAtMs = performance.now();
    const answer = await generate('[[submit:500]] a fallen bridge');
    expect([answer.status, answer.body.error]).toEqual([500, 'PROVIDER_ERROR']);
    // An unknown outcome would take eight seconds (OUTCOME_WAIT_MS).
    expect(performance.now() - startedAtMs).toBeLessThan(8000);
    expect(await balance()).toBe(before);
    const [call] = await gateway.database.query<{ state: string }>(
      'SELECT state FROM provider_call WHERE job_id = $1',
      [answer.body.jobId],
    );
    expect(call?.state).toBe('unknown');
  });
});

// The tests mostly wait, so they wait together.
describe.concurrent('a submit that has an unknown outcome and is never sent again', () => {
  it('completes from the notification when the connection broke after the provider accepted the call', async () => {
    const answer = await generate('[[reset-after-accept]] a lost bridge');
    expect(answer.status).toBe(200);
    const submits = await gateway.sandbox.submits({ match: 'a lost bridge' });
    expect(submits).toHaveLength(1);
  });

  it('is released and counted when no notification arrives', async () => {
    const accepted = await generate('[[reset-after-accept]] [[no-webhook]] a vanished bridge', {
      async: true,
    });
    const { jobId } = accepted.body.data;
    await untilHolds(async () =>
      expect((await gateway.call(`/api/v1/studio/jobs/${jobId}`)).body.data.phase).toBe(
        'verifying_outcome',
      ),
    );
    const done = await gateway.untilDone(jobId);
    expect(done.body.data).toMatchObject({
      status: 'failed',
      error: { code: 'OUTCOME_UNKNOWN' },
      billing: { state: 'released' },
    });
    expect(await gateway.sandbox.submits({ match: 'a vanished bridge' })).toHaveLength(1);
  });

  it('is released when the connection broke before the provider accepted the call and no notification arrives', async () => {
    const answer = await generate('[[reset-before-accept]] an unbuilt bridge');
    expect(answer.body.error).toBe('OUTCOME_UNKNOWN');
    expect(await gateway.sandbox.submits({ match: 'an unbuilt bridge' })).toHaveLength(0);
  });

  it('completes from the notification when a proxy responded instead of the provider', async () => {
    const answer = await generate('[[proxy-error:502]] a veiled bridge');
    expect(answer.status).toBe(200);
    expect(await gateway.sandbox.submits({ match: 'a veiled bridge' })).toHaveLength(1);
  });

  it('is released when a proxy responded and no notification arrives', async () => {
    const answer = await generate('[[proxy-error:500]] [[no-webhook]] a hidden bridge');
    expect(answer.body.error).toBe('OUTCOME_UNKNOWN');
    expect(await gateway.sandbox.submits({ match: 'a hidden bridge' })).toHaveLength(1);
  });

  it('completes from the notification when the response to the submit is invalid', async () => {
    const answer = await generate('[[malformed-submit]] a garbled bridge');
    expect(answer.status).toBe(200);
    expect(await gateway.sandbox.submits({ match: 'a garbled bridge' })).toHaveLength(1);
  });
});

describe.concurrent('a download that always breaks off', () => {
  it('is a storage failure after all attempts', async () => {
    const { key, organizationId } = await gateway.newCaller({ credits: 100 });
    const accepted = await gateway.call('/api/v1/studio/image/generate', {
      key,
      body: { prompt: '[[truncated-media]] a mountain', async: true },
    });
    const done = await gateway.untilDone(accepted.body.data.jobId, key);
    expect(done.body.data).toMatchObject({
      error: { code: 'STORAGE_ERROR', message: 'the provider’s output could not be downloaded' },
      billing: { state: 'released', charged: 0 },
    });
    expect(await gateway.database.balance(organizationId)).toMatchObject({ available: 100e6 });
  });
});

describe('a job that passes its deadline', () => {
  const slow = useGateway({ env: { IMAGE_DEADLINE_MS: '1500', OUTCOME_WAIT_MS: '3000' } });

  it('is canceled at the provider, and released when the provider confirms', async () => {
    const [canceled, stubborn, late] = await Promise.all(
      [
        '[[slow:60s]] an endless road',
        '[[slow:60s]] [[ignore-cancel]] an endless road',
        '[[slow:2500ms]] [[ignore-cancel]] [[no-webhook]] a long road',
      ].map((prompt) => slow.call('/api/v1/studio/image/generate', { body: { prompt } })),
    );
    expect(canceled?.body.error).toBe('DEADLINE_EXCEEDED');
    expect(stubborn?.body.error).toBe('OUTCOME_UNKNOWN');
    // Finished after the deadline but before the verdict was in doubt: delivered, and paid for.
    expect(late?.status).toBe(200);
  });
});

describe('a job whose result the storage does not accept', () => {
  const impatient = useGateway({ env: { IMAGE_DEADLINE_MS: '1500', OUTCOME_WAIT_MS: '3000' } });

  it('is released without a charge when OUTCOME_WAIT_MS after its deadline have passed', async () => {
    const objects = join(gateway.config.STORAGE_DIR, 'objects');
    await rm(objects, { recursive: true, force: true });
    // A file in place of the directory makes every write fail, for root too.
    await writeFile(objects, '');
    try {
      const { key, organizationId } = await impatient.newCaller({ credits: 100 });
      const body = { prompt: 'a picture without a wall' };
      const answer = await impatient.call('/api/v1/studio/image/generate', { key, body });
      expect(answer).toMatchObject({ status: 500, body: { error: 'STORAGE_ERROR' } });
      expect(await impatient.database.balance(organizationId)).toMatchObject({ available: 100e6 });
    } finally {
      await rm(objects, { force: true });
      await mkdir(objects);
      await chmod(objects, 0o755);
    }
    const answer = await generate('a picture with a wall');
    expect(answer.status).toBe(200);
  });
});

describe('several images', () => {
  it('are charged one by one, only as far as they were delivered', async () => {
    const answer = await generate('[[partial:2]] some trees', { numImages: 4 });
    expect(answer.status).toBe(200);
    expect(answer.body.data.images).toHaveLength(2);
    expect(answer.body.credits).toMatchObject({ used: 7.8, cost: 7.8 });
  });

  it('are split into calls that the provider accepts, each with its own seed', async () => {
    const answer = await generate('an orchard', { numImages: 10, seed: 7 });
    expect(answer.body.data.images).toHaveLength(10);
    expect(answer.body.credits.used).toBe(39);
    const submits = await gateway.sandbox.submits({ match: 'an orchard' });
    expect(submits.map(({ body }) => [body['num_images'], body['seed']]).toSorted()).toEqual([
      [2, 15],
      [4, 11],
      [4, 7],
    ]);
  });
});
