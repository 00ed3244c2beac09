/** Refunds of charged jobs by operators, and every place that shows them. */
import { expect, it } from 'vitest';
import { operatorAction, useGateway } from '../harness/gateway.ts';

const gateway = useGateway();

interface Refund {
  repeated: boolean;
  error: string;
  message: string;
}
interface Story {
  why: string;
  billing: object;
  ledger: { kind: string }[];
  actions: object[];
}

const refund = (jobId: string, body: object) =>
  gateway.admin<Refund>(`/jobs/${jobId}/refunds`, body);
const readAsOperator = async <Data>(path: string) =>
  (await gateway.admin<{ data: Data }>(path)).body.data;

async function makeJob(prompt: string) {
  const caller = await gateway.newCaller({ credits: 10, windowCredits: 50 });
  const jobId = await gateway.startImage({ prompt }, caller.key);
  await gateway.untilDone(jobId, caller.key);
  const read = async (path: string) =>
    (await gateway.call<object>(`/api/v1${path}`, { key: caller.key })).body;
  return { ...caller, jobId, read };
}

it('refunds a part and then the rest, and every view of the job shows it', async () => {
  const { jobId, organizationId, read } = await makeJob('a lighthouse');
  const part = await refund(jobId, { id: 'ticket-7', credits: 1.5 });
  expect([part.status, part.body]).toEqual([
    200,
    { success: true, repeated: false, credits: 1.5, refunded: 1.5, available: 7.6 },
  ]);
  const billing = { state: 'charged', reserved: 3.9, charged: 3.9, refunded: 1.5 };
  expect(await read(`/studio/jobs/${jobId}`)).toMatchObject({
    data: { status: 'completed', billing },
    credits: { used: 2.4, cost: 3.9, remaining: 7.6 },
  });
  expect(await read('/usage')).toMatchObject({
    usage: [{ id: jobId, status: 'charged', credits: 2.4, refunded: 1.5 }],
    window: { used: 3.9 },
  });
  expect(await read('/usage/summary')).toMatchObject({ total: { requests: 1, credits: 2.4 } });

  const rest = await refund(jobId, { id: 'ticket-8' });
  expect(rest.body).toMatchObject({ credits: 2.4, refunded: 3.9, available: 10 });
  const entries = `/organizations/${organizationId}/ledger?kind=refund`;
  expect(await readAsOperator(entries)).toMatchObject([
    { reservationId: jobId, postedChange: 2.4, ...operatorAction },
    { reservationId: jobId, postedChange: 1.5, ...operatorAction },
  ]);
  const story = await readAsOperator<Story>(`/jobs/${jobId}`);
  expect(story.why).toMatch(/; 3\.9 credits refunded by olga \(ticket 7\)\.$/);
  expect(story.billing).toEqual({ ...billing, refunded: 3.9 });
  expect(story.ledger.map(({ kind }) => kind)).toEqual(['reserve', 'charge', 'refund', 'refund']);
  expect(story.actions).toMatchObject([
    { action: 'job.refunded', details: { id: 'ticket-8', credits: 2.4 }, ...operatorAction },
    { action: 'job.refunded', details: { id: 'ticket-7', credits: 1.5 }, ...operatorAction },
  ]);
  expect(await readAsOperator(`/jobs?search=${jobId}`)).toMatchObject([
    { billing: { ...billing, refunded: 3.9 } },
  ]);
});

it('refunds once per id, and records the action once', async () => {
  const { jobId, organizationId } = await makeJob('a pier');
  const racing = await Promise.all(
    Array.from({ length: 8 }, () => refund(jobId, { id: 'ticket-7', credits: 1 })),
  );
  for (const { body } of racing) expect(body).toMatchObject({ refunded: 1, available: 7.1 });
  const again = await refund(jobId, { id: 'ticket-7', credits: 1 });
  expect(again.body.repeated).toBe(true);
  expect(again.headers.get('idempotent-replayed')).toBe('true');
  for (const credits of [2, undefined]) {
    const other = await refund(jobId, { id: 'ticket-7', credits });
    expect(`${other.status} ${other.body.error}`).toBe('422 IDEMPOTENCY_KEY_REUSED');
  }
  const path = `/actions?organizationId=${organizationId}`;
  const actions = await readAsOperator<{ action: string }[]>(path);
  expect(actions.filter(({ action }) => action === 'job.refunded')).toHaveLength(1);
});

it('never refunds more than the charge, nothing that is not positive, and nothing of a released job', async () => {
  const { jobId } = await makeJob('a weir');
  const racing = await Promise.all(
    Array.from({ length: 5 }, (_, index) => refund(jobId, { id: `ticket-${index}`, credits: 1 })),
  );
  expect(racing.filter(({ status }) => status === 200)).toHaveLength(3);
  for (const credits of [1.25, 0, -1, '1', 1e30]) {
    const { status, body } = await refund(jobId, { id: 'ticket-a', credits });
    expect(status).toBe(400);
    expect(body).toMatchObject({ error: 'INVALID_REQUEST', details: [{ path: 'credits' }] });
  }
  expect((await refund(jobId, { id: 'ticket-a', credits: 1.25 })).body.message).toBe(
    'credits: must be at most 0.9, the charged credits that have not been refunded yet (received 1.25)',
  );
  await refund(jobId, { id: 'ticket-b' });
  const nothing = await refund(jobId, { id: 'ticket-c' });
  expect(nothing.status).toBe(409);
  expect(nothing.body).toMatchObject({
    error: 'JOB_NOT_REFUNDABLE',
    message:
      'Only charged credits can be refunded: the job is charged, 3.9 credits were charged and 3.9 refunded.',
    charged: 3.9,
    refunded: 3.9,
  });
  const released = await makeJob('[[fail:422]] a lighthouse');
  const rejected = await refund(released.jobId, { id: 'ticket-7' });
  expect(rejected.status).toBe(409);
  expect(rejected.body).toMatchObject({ error: 'JOB_NOT_REFUNDABLE', state: 'released' });
});
