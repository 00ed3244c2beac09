/** Share links: who sees a result with one, what it shows, and when it ends. */
import { describe, expect, it } from 'vitest';
import type { ShareLink } from '../../studio/jobs/share-links.ts';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
const path = '/api/v1/studio/shares';

interface Answer<Data> {
  data: Data;
  error: string;
}
type Created = ShareLink & { url: string; expiresAt: string };
interface Shared {
  type: string;
  result: { images: { url: string; expiresAt: string }[] };
  expiresAt: string;
}

async function paint(body: object = {}): Promise<string> {
  const jobId = await gateway.startImage({ prompt: 'a secret plan', ...body });
  await gateway.untilDone(jobId);
  return jobId;
}
const share = (
  jobId: string,
  { key = gateway.caller.key, ...body }: Record<string, unknown> = {},
) =>
  gateway.call<Answer<Created>>(`/api/v1/studio/jobs/${jobId}/share`, { key: String(key), body });
async function createLink(jobId: string, body = {}): Promise<Created & { token: string }> {
  const answer = await share(jobId, body);
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 200 });
  const { data } = answer.body;
  const [page, token = ''] = data.url.split('#');
  expect(page).toBe(`${gateway.url}/console/share`);
  return { ...data, token };
}
/** Opens a link as people without a key do. */
async function open(token: string): Promise<{ status: number; body: Answer<Shared> }> {
  const response = await fetch(`${gateway.url}${path}/open`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  });
  return { status: response.status, body: (await response.json()) as Answer<Shared> };
}
const ended = { status: 410, body: { error: 'SHARE_ENDED' } };
const update = (set: string, shareId: string) =>
  gateway.database.query(`UPDATE share_link SET ${set} WHERE id = $1`, [shareId]);

describe.concurrent('a share link', () => {
  it('shows the result without a key, and nothing of the request or its price, until it is revoked', async () => {
    const jobId = await paint({ numImages: 2, metadata: { client: 'acme' } });
    const { token, shareId } = await createLink(jobId, { expiresInSeconds: 86_400 });
    const opened = await open(token);
    expect(opened).toMatchObject({ status: 200, body: { data: { type: 'imageGenerate' } } });
    const { data } = opened.body;
    expect(Object.keys(data).toSorted()).toEqual([
      'completedAt',
      'expiresAt',
      'model',
      'result',
      'type',
    ]);
    expect(JSON.stringify(data)).not.toMatch(/secret plan|acme|key_/);
    expect(data.result.images).toHaveLength(2);
    for (const { url, expiresAt } of data.result.images) {
      expect((await fetch(url)).headers.get('content-type')).toBe('image/png');
      expect(Date.parse(expiresAt)).toBeLessThan(Date.now() + 3_601_000);
    }
    const list = await gateway.call<Answer<ShareLink[]>>(`${path}?jobId=${jobId}`);
    expect(list.body.data).toMatchObject([{ shareId, jobId, openings: 1, revokedAt: null }]);
    expect(JSON.stringify(list.body)).not.toContain(token);

    const stranger = await gateway.newCaller({ credits: 0 });
    const revoke = (key: string) =>
      gateway.call<Answer<ShareLink>>(`${path}/${shareId}`, { method: 'DELETE', key });
    expect(await revoke(stranger.key)).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } });
    const [first, again] = [await revoke(gateway.caller.key), await revoke(gateway.caller.key)];
    expect(first).toMatchObject({
      status: 200,
      body: { data: { shareId, revokedAt: expect.any(String) } },
    });
    expect(again.body).toEqual(first.body);
    expect(await open(token)).toMatchObject(ended);
  });

  it('ends at its time, with its job, with its media, and while its organization is suspended', async () => {
    const jobId = await paint();
    const [expired, whole] = [
      await createLink(jobId),
      await createLink(jobId, { expiresInSeconds: 60 }),
    ];
    const [image] = (await open(whole.token)).body.data.result.images;
    // Files expire with a link of less than an hour.
    expect(Date.parse(image?.expiresAt ?? '')).toBeLessThanOrEqual(Date.parse(whole.expiresAt));
    await update("expires_at = clock_timestamp() - interval '1 second'", expired.shareId);
    expect(await open(expired.token)).toMatchObject(ended);
    await gateway.send(`/api/v1/studio/jobs/${jobId}/media`, { method: 'DELETE' });
    expect(await open(whole.token)).toMatchObject({
      status: 410,
      body: { error: 'MEDIA_DELETED' },
    });
    expect(await share(jobId)).toMatchObject({ status: 410, body: { error: 'MEDIA_DELETED' } });
    expect(await open('x'.repeat(43))).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } });

    const other = await gateway.newCaller({ credits: 100 });
    const otherJob = await gateway.startImage({ prompt: 'a kite' }, other.key);
    await gateway.untilDone(otherJob, other.key);
    const { token } = await createLink(otherJob, { key: other.key });
    await gateway.operate(`/organizations/${other.organizationId}/suspend`, {});
    expect(await open(token)).toMatchObject(ended);
    await gateway.operate(`/organizations/${other.organizationId}/activate`, {});
    expect(await open(token)).toMatchObject({
      status: 200,
      body: { data: { type: 'imageGenerate' } },
    });
  });

  it('is made of a completed job of the own organization, twenty of each, once per Idempotency-Key', async () => {
    const slow = await gateway.startImage({ prompt: '[[slow:900s]] a slow kite' });
    expect(await share(slow)).toMatchObject({ status: 409, body: { error: 'JOB_NOT_DONE' } });
    await gateway.cancel(slow);
    await gateway.untilDone(slow);
    const failed = await paint({ prompt: '[[fail:422]] a kite' });
    expect(await share(failed)).toMatchObject({ status: 409, body: { error: 'NO_RESULT' } });
    const jobId = await paint();
    const stranger = await gateway.newCaller({ credits: 0 });
    expect(await share(jobId, { key: stranger.key })).toMatchObject({
      status: 404,
      body: { error: 'JOB_NOT_FOUND' },
    });
    expect(await share(jobId, { expiresInSeconds: 59 })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'expiresInSeconds' }] },
    });
    const once = () =>
      gateway.call<Answer<Created>>(`/api/v1/studio/jobs/${jobId}/share`, {
        body: {},
        headers: { 'idempotency-key': 'one-link' },
      });
    expect((await once()).body).toEqual((await once()).body);
    const made = await Promise.all(Array.from({ length: 20 }, () => share(jobId)));
    expect(made.map(({ status }) => status).toSorted()).toEqual([...Array(19).fill(200), 400]);
    expect(made.find(({ status }) => status === 400)?.body).toMatchObject({
      error: 'SHARE_QUOTA_REACHED',
    });
  });
});
