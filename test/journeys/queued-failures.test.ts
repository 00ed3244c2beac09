/** Failures of a provider that queues work: the response, the billing and the number of calls. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { untilHolds } from '../harness/until.ts';

const gateway = useGateway({ settled: 'last' });
const slow = useGateway({
  env: { IMAGE_DEADLINE_MS: '8000', OUTCOME_WAIT_MS: '8000' },
  settled: 'last',
});

const path = '/api/v1/studio/image/generate';

/** Runs a job of an organization with 100 credits; returns its response and its job. */
async function generate(prompt: string, at = gateway) {
  const { key, organizationId } = await gateway.newCaller();
  const answer = await at.call(path, { key, body: { prompt } });
  const [{ id: jobId } = { id: '' }] = await gateway.database.jobs(organizationId);
  return {
    answer,
    jobId,
    job: (await gateway.call(`/api/v1/studio/jobs/${jobId}`, { key })).body.data,
    submits: await gateway.sandbox.submits({ jobId }),
    available: (await gateway.database.balance(organizationId))?.available,
  };
}

/** Starts a job of a new caller; returns its id and the key of the caller. */
async function start(prompt: string) {
  const { key } = await gateway.newCaller();
  return { key, jobId: await gateway.startImage({ prompt }, key) };
}

type Row = [name: string, prompt: string, status: number, code: string, submits: number];
const released: Row[] = [
  ['the provider rejects the input', '[[fail:422]]', 400, 'PROVIDER_REJECTED_INPUT', 1],
  ['the input violates the content policy', '[[policy]]', 400, 'CONTENT_POLICY', 1],
  ['the provider fails', '[[fail-result:500]]', 500, 'PROVIDER_ERROR', 1],
  ['the provider reports a failed submit', '[[submit:500]]', 500, 'PROVIDER_ERROR', 0],
  ['the provider rejects the key', '[[submit:401x1]]', 500, 'PROVIDER_ERROR', 0],
  ['the result is malformed', '[[malformed-result]]', 500, 'PROVIDER_ERROR', 1],
  ['the result URL is dead', '[[dead-url]]', 500, 'PROVIDER_ERROR', 1],
  ['the picture is truncated', '[[truncated-media:silent]]', 500, 'PROVIDER_ERROR', 1],
  ['the download always breaks off', '[[truncated-media]]', 500, 'STORAGE_ERROR', 1],
  ['the picture is empty', '[[empty-media]]', 500, 'PROVIDER_ERROR', 1],
  ['the picture is a web page', '[[wrong-type-media]]', 500, 'PROVIDER_ERROR', 1],
  ['the connection breaks before it', '[[reset-before-accept]]', 500, 'OUTCOME_UNKNOWN', 0],
  ['a proxy responds to it', '[[proxy-error:500]] [[no-webhook]]', 500, 'OUTCOME_UNKNOWN', 1],
];

// The tests mostly wait, so they wait together.
describe.concurrent('a job', () => {
  it.each(released)(
    'is released, is not sent again and returns its reason when %s',
    async (_name, markers, status, code, submits) => {
      const { answer, job, jobId, ...seen } = await generate(`${markers} a mountain`);
      const message = expect.any(String);
      expect(answer).toMatchObject({ status, body: { error: code, message, jobId } });
      expect(JSON.stringify(answer.body)).not.toContain(gateway.sandbox.url);
      expect(job).toMatchObject({
        status: 'failed',
        error: { code },
        billing: { state: 'released', charged: 0 },
      });
      expect(seen.submits).toHaveLength(submits);
      expect(seen.available).toBe(100e6);
    },
  );

  it.each<[name: string, markers: string, leastMs?: number]>([
    ['503 twice', '[[submit:503x2]]'],
    ['a failed status check', '[[no-webhook]] [[status:500x2]]'],
    ['a failed read of the result', '[[result:502x1]]'],
    ['a connection that broke after the provider accepted the call', '[[reset-after-accept]]'],
    ['a response of a proxy instead of the provider', '[[proxy-error:502]]'],
    ['an invalid response to the submit', '[[malformed-submit]]'],
    ['the time in Retry-After', '[[submit:429x1;retry-after=2]]', 2000],
  ])(
    'completes with one paid call and one charge after %s',
    async (_name, markers, leastMs = 0) => {
      const startedAt = performance.now();
      const { answer, submits, available } = await generate(`${markers} a river`);
      expect(performance.now() - startedAt).toBeGreaterThan(leastMs);
      expect(answer.status).toBe(200);
      expect(submits).toHaveLength(1);
      expect(available).toBe(96.1e6);
    },
  );

  it('with an unknown outcome is verified, then released and counted when no notification arrives', async () => {
    const { key, jobId } = await start('[[reset-after-accept]] [[no-webhook]] a bridge');
    await untilHolds(async () => {
      const { body } = await gateway.call(`/api/v1/studio/jobs/${jobId}`, { key });
      const stuck = await gateway.admin<{ data: { id: string }[] }>('/stuck?limit=100');
      expect(body.data.phase).toBe('verifying_outcome');
      expect(stuck.body.data.map(({ id }) => id)).toContain(jobId);
    });
    expect((await gateway.untilDone(jobId, key)).body.data).toMatchObject({
      status: 'failed',
      error: { code: 'OUTCOME_UNKNOWN' },
      billing: { state: 'released' },
    });
    expect(await gateway.sandbox.submits({ jobId })).toHaveLength(1);
  });

  it.each([
    ['is released when the provider confirms the cancel', '[[slow:60s]]', 'DEADLINE_EXCEEDED'],
    [
      'has an unknown outcome when the provider ignores the cancel',
      '[[slow:60s]] [[ignore-cancel]]',
      'OUTCOME_UNKNOWN',
    ],
    // It finishes before its outcome is unknown.
    [
      'is delivered and charged when it finishes all the same',
      '[[slow:10s]] [[ignore-cancel]] [[no-webhook]]',
      undefined,
    ],
  ])('that passes its deadline %s', async (_name, markers, code) => {
    const { answer, available } = await generate(`${markers} an endless road`, slow);
    expect(answer.body.error).toBe(code);
    expect(available).toBe(code ? 100e6 : 96.1e6);
  });
});

describe('a job whose result the storage does not accept', () => {
  it('is released without a charge when OUTCOME_WAIT_MS after its deadline have passed', async () => {
    const objects = join(gateway.config.STORAGE_DIR, 'objects');
    await rm(objects, { recursive: true, force: true });
    // A file in place of the directory makes every write fail, for root too.
    await writeFile(objects, '');
    try {
      const { answer, available } = await generate('a picture without a wall', slow);
      expect(answer).toMatchObject({ status: 500, body: { error: 'STORAGE_ERROR' } });
      expect(available).toBe(100e6);
    } finally {
      await rm(objects, { force: true });
      await mkdir(objects);
    }
    expect((await generate('a picture with a wall')).answer.status).toBe(200);
  });
});
