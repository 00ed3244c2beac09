/**
 * The key by which a provider knows a call again is made from the job, never from a run of its workflow: a
 * reset begins a new run, and what that sends again must be known again.
 */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

it('a provider that knows calls by a key knows them by their job', async () => {
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
