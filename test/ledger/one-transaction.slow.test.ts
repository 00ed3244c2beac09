/**
 * Charge, status and result are one transaction: in this test, the database rejects anything else.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { guardSettlements } from '../harness/settlement-guard.ts';

const gateway = useGateway();
// The files of a process share the database, so the guard is removed after the last test.
beforeAll(() => guardSettlements((text) => gateway.database.query(text)));

/** Waits for the end of a job; returns its status and that of its reservation. */
const readEnd = async (jobId: string) => {
  const { data } = (await gateway.untilDone(jobId)).body;
  return `${data.status} ${data.billing.state}`;
};

describe('a job', () => {
  it.each([
    ['delivered', 'a heron', {}, 'completed charged'],
    ['delivered in part', '[[partial:2]] herons', { numImages: 4 }, 'completed charged'],
    ['rejected', '[[policy]] a heron', {}, 'failed released'],
    ['without a result', '[[fail:422]] a heron', {}, 'failed released'],
  ])(
    'that is %s has its status and its settlement written in one transaction',
    async (_how, prompt, more, state) => {
      expect(await readEnd(await gateway.startImage({ prompt, ...more }))).toBe(state);
    },
  );

  it('that is canceled has its status and its release written in one transaction', async () => {
    const jobId = await gateway.startImage({ prompt: '[[slow:60s]] a heron' });
    await gateway.untilAccepted(jobId);
    await gateway.cancel(jobId);
    expect(await readEnd(jobId)).toBe('canceled released');
  });
});

it('a canceled chat is charged for what was delivered in one transaction', async () => {
  const body = { model: 'gpt-4o', input: '[[words:5000]] [[slow-chunks:20ms]]', background: true };
  const begun = await gateway.call<{ id: string }>('/api/v1/responses', { body });
  const { id } = begun.body;
  const checkpoint = 'SELECT FROM reservation WHERE id = $1 AND checkpoint_micro > 0';
  await expect.poll(() => gateway.database.query(checkpoint, [id])).toHaveLength(1);
  await gateway.cancel(id);
  expect(await readEnd(id)).toBe('canceled charged');
});

it.each([
  `UPDATE reservation SET state = 'charged', charged = 0, settled_at = now() WHERE id = $1`,
  `UPDATE job SET status = 'completed', completed_at = now(), outputs = '[]' WHERE id = $1`,
])('the settlement guard of the tests rejects half a settlement: %s', async (half) => {
  const jobId = await gateway.startImage({ prompt: '[[slow:900s]] a patient heron' });
  await gateway.untilAccepted(jobId);
  await expect(gateway.database.query(half, [jobId])).rejects.toThrow('not settled at once');
  await gateway.sandbox.clearFaults();
  expect(await readEnd(jobId)).toBe('completed charged');
});
