/**
 * Operator lists: jobs by each filter and by a search, with the names of organizations; the ledger
 * by kind of entry.
 */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

interface Line {
  jobId: string;
  organizationId: string;
  organizationName: string;
  prompt: string | null;
  errorCode: string | null;
  kind: string;
  reservationId: string | null;
}

const read = (path: string, query: Record<string, string>) =>
  gateway.admin<{ data: Line[]; hasMore: boolean; nextCursor: string; error: string }>(
    `${path}?${new URLSearchParams(query).toString()}`,
  );

async function make(key: string, body: object): Promise<string> {
  const accepted = await gateway.call('/api/v1/studio/image/generate', {
    key,
    body: { ...body, async: true },
  });
  await gateway.untilDone(accepted.body.data.jobId, key);
  return accepted.body.data.jobId;
}

it('finds jobs by organization with each further filter, and names the organization', async () => {
  const { key, organizationId } = await gateway.newCaller({ credits: 100 });
  const done = await make(key, { prompt: 'a quiet weir' });
  const failed = await make(key, { prompt: '[[fail:422]] a weir', model: 'seedream' });
  const found = async (query: Record<string, string>) =>
    (await read('/jobs', { organizationId, ...query })).body.data.map(({ jobId }) => jobId);
  expect(await found({})).toEqual([failed, done]);
  expect(await found({ status: 'failed' })).toEqual([failed]);
  expect(await found({ errorCode: 'PROVIDER_REJECTED_INPUT' })).toEqual([failed]);
  expect(await found({ model: 'nano-banana' })).toEqual([done]);
  expect(await found({ provider: 'fal' })).toEqual([failed, done]);
  expect(await found({ provider: 'openai' })).toEqual([]);
  expect(await found({ after: new Date().toISOString() })).toEqual([]);
  expect(await found({ before: new Date().toISOString(), type: 'imageGenerate' })).toHaveLength(2);
  expect(await found({ search: 'QUIET WEIR' })).toEqual([done]);
  expect(await found({ search: failed.slice(-8) })).toEqual([failed]);
  const { body } = await read('/jobs', { search: done, limit: '1' });
  expect(body.data).toMatchObject([
    { jobId: done, prompt: 'a quiet weir', organizationId, organizationName: 'Test' },
  ]);
  const [first, second] = [
    await read('/jobs', { organizationId, limit: '1' }),
    await read('/jobs', { organizationId, limit: '1', cursor: failed }),
  ];
  expect([first.body.nextCursor, second.body.data[0]?.jobId]).toEqual([failed, done]);
  for (const query of [{ errorCode: 'NO_SUCH' }, { status: 'queued' }, { after: 'today' }])
    expect((await read('/jobs', query)).body.error).toBe('INVALID_REQUEST');
});

it('lists the ledger of an organization by kind', async () => {
  const { key, organizationId } = await gateway.newCaller({ credits: 100 });
  const jobId = await make(key, { prompt: 'a weir' });
  const entries = async (query: Record<string, string>) =>
    (await read(`/organizations/${organizationId}/ledger`, query)).body.data;
  expect((await entries({})).map(({ kind }) => kind)).toEqual(['charge', 'reserve', 'grant']);
  expect(await entries({ kind: 'charge' })).toMatchObject([{ reservationId: jobId }]);
  const wrong = await read(`/organizations/${organizationId}/ledger`, { kind: 'gift' });
  expect(wrong.body.error).toBe('INVALID_REQUEST');
});
