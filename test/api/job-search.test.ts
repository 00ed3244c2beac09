/** Job search: jobs by an id or a text, the number of matches, and the label of each job. */
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
const path = '/api/v1/studio/jobs';

interface Listed {
  data: { jobId: string; prompt: string | null; provider: string }[];
  error: string;
}

async function make(caller: TestCaller, body: object, headers = {}): Promise<string> {
  const accepted = await gateway.call('/api/v1/studio/image/generate', {
    key: caller.key,
    headers,
    body: { ...body, async: true },
  });
  expect(accepted.status).toBe(202);
  const { jobId } = accepted.body.data;
  await gateway.untilDone(jobId, caller.key);
  return jobId;
}
const list = async ({ key }: TestCaller, query: Record<string, string>) =>
  (await gateway.call<Listed>(`${path}?${new URLSearchParams(query).toString()}`, { key })).body;
const found = async (caller: TestCaller, search: string) =>
  (await list(caller, { search })).data.map(({ jobId }) => jobId);

describe('GET /studio/jobs?search=', () => {
  it('finds a job by each of its ids, by the last characters of its id, and by the text of its prompt', async () => {
    const [one, other] = [
      await gateway.newCaller({ credits: 100 }),
      await gateway.newCaller({ credits: 100 }),
    ];
    const headers = { 'Idempotency-Key': 'order-4711' };
    const jobId = await make(one, { prompt: 'A Lighthouse at 100 %\nwith gulls' }, headers);
    const second = await make(one, { prompt: 'a heron' });
    const foreign = await make(other, { prompt: 'a lighthouse' }, headers);
    const timeline = await gateway.call<{
      data: { steps: { providerRequestId: string | null }[] };
    }>(`${path}/${jobId}/timeline`, { key: one.key });
    const { requestId } = (
      await gateway.call<{ data: { requestId: string } }>(`${path}/${jobId}`, { key: one.key })
    ).body.data;
    const atProvider = timeline.body.data.steps.find((step) => step.providerRequestId !== null);
    const ids = [jobId, jobId.slice(-8), requestId, 'order-4711', atProvider?.providerRequestId];
    for (const text of [...ids, 'lighthouse', 'at 100 %', 'GULLS']) {
      expect(await found(one, text ?? ''), text ?? '').toEqual([jobId]);
    }
    // LIKE wildcards match literally, and a too short end of an id finds nothing.
    for (const text of ['100%', '_', jobId.slice(-5), 'nothing'])
      expect(await found(one, text)).toEqual([]);
    expect(await found(one, foreign)).toEqual([]);
    expect(await found(other, 'order-4711')).toEqual([foreign]);
    expect((await list(one, { search: 'a', status: 'failed' })).data).toEqual([]);
    expect((await list(one, { search: 'heron' })).data[0]).toMatchObject({
      jobId: second,
      prompt: 'a heron',
      provider: 'fal',
    });
    expect((await list(one, { search: jobId })).data[0]?.prompt).toBe('A Lighthouse at 100 %');
  });

  it('rejects an empty or too long text', async () => {
    for (const search of [' ', 'x'.repeat(201)])
      expect((await list(gateway.caller, { search })).error).toBe('INVALID_REQUEST');
  });
});

describe('GET /studio/jobs/count', () => {
  it('counts the jobs of the organization that match the filters', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    await make(caller, { prompt: 'one' });
    await make(caller, { prompt: 'two' });
    await make(caller, { prompt: '[[fail:422]] three' });
    const count = async (query: string) =>
      (await gateway.call(`${path}/count${query}`, { key: caller.key })).body.data;
    expect(await count('')).toEqual({ count: 3 });
    expect(await count('?status=failed')).toEqual({ count: 1 });
    expect(await count('?status=in_progress')).toEqual({ count: 0 });
    expect(await count('?search=two')).toEqual({ count: 1 });
    expect((await gateway.call(`${path}/count?limit=5`)).status).toBe(400);
  });
});
