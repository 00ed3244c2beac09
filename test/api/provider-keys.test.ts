/**
 * The idempotency key of a provider call comes from the job, not from the workflow run: a reset
 * starts a new run, whose repeated calls must have the same key.
 */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

it('a provider call has an idempotency key made from its job', async () => {
  const { body } = await gateway.call('/api/v1/studio/sfx/generate', {
    body: { prompt: 'a key for a sound', async: true },
  });
  const { jobId } = body.data;
  await gateway.untilDone(jobId);
  expect(await gateway.sandbox.submits({ jobId })).toMatchObject([
    { idempotencyKey: `${jobId}:0` },
  ]);
});
