/**
 * The idempotency key of a provider call comes from the job, not from the workflow run: a reset
 * starts a new run, whose repeated calls must have the same key.
 */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

it('a provider call has an idempotency key made from its job', async () => {
  const word = 'a key for a sound';
  const { body } = await gateway.call('/api/v1/studio/sfx/generate', {
    body: { prompt: word, async: true },
  });
  const { jobId } = body.data;
  await gateway.untilDone(jobId);
  const submits = (await gateway.sandbox.submits({ match: word })) as unknown as {
    idempotencyKey: string | null;
  }[];
  expect(submits.map(({ idempotencyKey }) => idempotencyKey)).toEqual([`${jobId}:0`]);
});
