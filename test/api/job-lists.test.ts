/** Lists of jobs for callers and operators by each filter and by a search, and further lists for operators. */
import { describe, expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';

interface Listed {
  jobId: string;
  prompt: string | null;
  kind: string;
  name: string;
}
interface Page extends StudioBody<Listed[]> {
  hasMore: boolean;
  nextCursor: string | null;
}
type Query = Record<string, string>;

const gateway = useGateway({ settled: 'last' });
const jobsPath = '/api/v1/studio/jobs';

async function runJob(key: string, body: object, headers = {}): Promise<string> {
  const accepted = await gateway.call('/api/v1/studio/image/generate', {
    key,
    headers,
    body: { ...body, async: true },
  });
  const { jobId } = accepted.body.data;
  await gateway.untilDone(jobId, key);
  return jobId;
}
const encodeQuery = (query: Query) => new URLSearchParams(query).toString();
const list = async (key: string, query: Query) =>
  (await gateway.call<Page>(`${jobsPath}?${encodeQuery(query)}`, { key })).body;
const listAsOperator = async (path: string, query: Query) =>
  (await gateway.admin<Page>(`${path}?${encodeQuery(query)}`)).body;
const readIds = ({ data }: Page) => data.map(({ jobId }) => jobId);

describe('GET /studio/jobs', () => {
  it('finds a job by each of its ids, by the last characters of its id, and by the text of its prompt', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const other = await gateway.newCaller({ credits: 100 });
    const headers = { 'Idempotency-Key': 'order-4711' };
    const jobId = await runJob(key, { prompt: 'A Lighthouse at 100 %\nwith gulls' }, headers);
    const secondJobId = await runJob(key, { prompt: `herons${'🪶'.repeat(140)}` });
    const otherJobId = await runJob(other.key, { prompt: 'a lighthouse' }, headers);
    const timeline = await gateway.call<
      StudioBody<{ steps: { providerRequestId: string | null }[] }>
    >(`${jobsPath}/${jobId}/timeline`, { key });
    const shown = await gateway.call<StudioBody<{ requestId: string }>>(`${jobsPath}/${jobId}`, {
      key,
    });
    const findIds = async (search: string) => readIds(await list(key, { search }));
    for (const text of [
      jobId,
      jobId.slice(-8),
      shown.body.data.requestId,
      'order-4711',
      timeline.body.data.steps.find((step) => step.providerRequestId)?.providerRequestId ?? '',
      'lighthouse',
      'at 100 %',
      'GULLS',
    ]) {
      expect(await findIds(text), text).toEqual([jobId]);
    }
    // LIKE wildcards match literally, and a too short end of an id finds nothing.
    for (const text of ['100%', '_', jobId.slice(-5), 'nothing', otherJobId]) {
      expect(await findIds(text), text).toEqual([]);
    }
    expect(readIds(await list(other.key, { search: 'order-4711' }))).toEqual([otherJobId]);
    for (const more of [{ status: 'failed' }, { type: 'musicGenerate' }]) {
      expect(readIds(await list(key, { search: 'a', ...more }))).toEqual([]);
    }
    const prompt = `herons${'🪶'.repeat(133)}…`;
    const heron = { jobId: secondJobId, prompt, provider: 'fal' };
    const first = await list(key, { limit: '1', status: 'completed', type: 'imageGenerate' });
    expect(first).toMatchObject({ data: [heron], hasMore: true });
    expect(await list(key, { limit: '1', cursor: first.nextCursor ?? '' })).toMatchObject({
      data: [{ jobId, prompt: 'A Lighthouse at 100 %' }],
      hasMore: false,
      nextCursor: null,
    });
  });

  it.each<Query>([{ search: ' ' }, { search: 'x'.repeat(201) }, { limit: '101' }])(
    'rejects %j',
    async (query) => {
      const { error } = await list(gateway.caller.key, query);
      expect(error).toBe('INVALID_REQUEST');
    },
  );
});

it('GET /studio/jobs/count counts the jobs of the organization that match the filters', async () => {
  const { key } = await gateway.newCaller({ credits: 100 });
  for (const prompt of ['one', 'two', '[[fail:422]] three']) await runJob(key, { prompt });
  const count = async (query: string) =>
    (await gateway.call(`${jobsPath}/count${query}`, { key })).body.data;
  expect(await count('')).toEqual({ count: 3, complete: true });
  expect(await count('?status=failed')).toEqual({ count: 1, complete: true });
  expect(await count('?status=in_progress')).toEqual({ count: 0, complete: true });
  const canceled = await gateway.startImage({ prompt: '[[slow:60s]] four' }, key);
  await gateway.cancel(canceled, key);
  await gateway.untilDone(canceled, key);
  expect(await count('?status=canceled')).toEqual({ count: 1, complete: true });
  expect(await count('?search=two')).toEqual({ count: 1, complete: true });
  const allTime = '?after=0001-01-01T00:00:00Z&before=9999-12-31T23:59:59Z';
  expect(await count(allTime)).toEqual({ count: 4, complete: true });
  expect((await gateway.call(`${jobsPath}/count?limit=5`)).status).toBe(400);
});

describe('operators', () => {
  it('find jobs by organization with each further filter, and the names of the organizations', async () => {
    const { key, organizationId } = await gateway.newCaller({ credits: 100 });
    const done = await runJob(key, { prompt: 'a quiet weir' });
    const failed = await runJob(key, { prompt: '[[fail:422]] a weir', model: 'seedream' });
    const now = new Date().toISOString();
    for (const [query, jobIds] of [
      [{}, [failed, done]],
      [{ status: 'failed' }, [failed]],
      [{ errorCode: 'PROVIDER_REJECTED_INPUT' }, [failed]],
      [{ model: 'nano-banana' }, [done]],
      [{ provider: 'fal' }, [failed, done]],
      [{ provider: 'openai' }, []],
      [{ after: now }, []],
      [{ before: now, type: 'imageGenerate' }, [failed, done]],
      [{ search: 'QUIET WEIR' }, [done]],
      [{ search: failed.slice(-8) }, [failed]],
      [{ limit: '1', cursor: failed }, [done]],
    ] as const) {
      const page = await listAsOperator('/jobs', { organizationId, ...query });
      expect([query, readIds(page)]).toEqual([query, jobIds]);
    }
    const job = { prompt: 'a quiet weir', organizationId, organizationName: 'Test' };
    expect((await listAsOperator('/jobs', { search: done, limit: '1' })).data).toMatchObject([job]);
    expect((await listAsOperator('/jobs', { organizationId, limit: '1' })).nextCursor).toBe(failed);
    for (const query of [{ errorCode: 'NO_SUCH' }, { status: 'queued' }, { after: 'today' }]) {
      expect((await listAsOperator('/jobs', query)).error).toBe('INVALID_REQUEST');
    }
  });

  it('read the ledger of an organization by kind', async () => {
    const { key, organizationId } = await gateway.newCaller({ credits: 100 });
    const reservationId = await runJob(key, { prompt: 'a weir' });
    const read = (query: Query) => listAsOperator(`/organizations/${organizationId}/ledger`, query);
    const { data } = await read({});
    expect(data.map(({ kind }) => kind)).toEqual(['charge', 'reserve', 'grant']);
    expect((await read({ kind: 'charge' })).data).toMatchObject([{ reservationId }]);
    expect((await read({ kind: 'gift' })).error).toBe('INVALID_REQUEST');
  });

  it('find organizations by a part of their name', async () => {
    await gateway.operate('/organizations', { name: 'Größe 100% & Co' });
    const findNames = async (name: string) =>
      (await listAsOperator('/organizations', { name })).data.map((each) => each.name);
    expect(await findNames('GRÖSSE')).toEqual([]);
    expect(await findNames('größe 100%')).toEqual(['Größe 100% & Co']);
    expect(await findNames('_')).toEqual([]);
  });
});
