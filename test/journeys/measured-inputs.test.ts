/**
 * The provider receives exactly the file that determined the price: the gateway copies external
 * inputs once.
 */
import { describe, expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { drawDisc, makeFilm } from '../harness/media.ts';

interface Result {
  jobId: string;
  results: { success: boolean }[];
}

const gateway = useGateway({ media: 'full', settled: 'last' });

/** Serves the first bytes to the first request, and the others to each later request. */
function swap(path: string, first: Buffer, later: Buffer): string {
  return gateway.media.serve(
    path,
    (response, count) => void response.end(count === 1 ? first : later),
  );
}

const callTool = (path: string, body: object, { key } = gateway.caller) =>
  gateway.call<StudioBody<Result>>(`/api/v1/studio/${path}`, { body, key });
const listCopies = () =>
  gateway.database.query<{ storage_key: string; job_id: string }>(
    'SELECT storage_key, job_id FROM input_copy',
  );
const listJobCopies = async (jobId: string) =>
  (await listCopies()).filter((copy) => copy.job_id === jobId).map((copy) => copy.storage_key);
/** Returns the id of the newest job, after a check that its provider calls name no other host. */
async function checkSubmits(): Promise<string> {
  const { id = '' } = (await gateway.database.jobs(gateway.caller.organizationId)).at(-1) ?? {};
  const submits = await gateway.sandbox.submits({ jobId: id });
  expect(submits.length).toBeGreaterThan(0);
  for (const { body } of submits) {
    expect(body['image_url']).toContain(`${gateway.url}/`);
    expect(JSON.stringify(body)).not.toContain(gateway.media.origin);
  }
  return id;
}

it('a signature in the URL of an input is neither stored nor shown', async () => {
  const png = await drawDisc(64, 64);
  const parameters = 'X-Amz-Signature=secret1&w=5&token=secret2&x-goog-credential=secret3';
  const path = `/signed.png?${parameters}`;
  const imageUrl = gateway.media.serve(path, (response) => void response.end(png));
  const answer = await callTool('image/upscale', { imageUrl, service: 'service_b' });
  expect(answer.status, answer.body.message).toBe(200);
  expect(gateway.media.requests(path)).toBe(1);
  const job = (await gateway.database.jobs(gateway.caller.organizationId)).at(-1);
  const shown = await gateway.call(`/api/v1/studio/jobs/${job?.id}`);
  const events = await gateway.events(job?.id ?? '');
  for (const text of [JSON.stringify(shown.body), JSON.stringify(job), JSON.stringify(events)]) {
    expect(text).not.toMatch(/secret\d/);
  }
  expect(job?.request['imageUrl']).toContain('w=5');
});

describe('a host that returns one file to the gateway and another to the provider', () => {
  it.each(['service_a', 'service_b'])(
    'gets no larger picture for the price of a smaller one (%s)',
    async (service) => {
      const path = `/${service}.png`;
      const imageUrl = swap(path, await drawDisc(100, 100), await drawDisc(600, 600));
      expect(await callTool('image/upscale', { imageUrl, service, scaleFactor: 4 })).toMatchObject({
        status: 200,
        body: {
          data: { width: 400, height: 400 },
          credits: { used: service === 'service_a' ? 8 : 2 },
        },
      });
      expect(gateway.media.requests(path)).toBe(1);
      await checkSubmits();
    },
  );

  it('gets no longer video for the price of a shorter one', async () => {
    const short = await makeFilm({ durationSeconds: 4 });
    const videoUrl = swap('/film.mp4', short, await makeFilm({ durationSeconds: 8 }));
    const ticket = await callTool('video/upscale', { videoUrl });
    expect(ticket.status, ticket.body.message).toBe(202);
    const done = await gateway.untilDone(ticket.body.data.jobId);
    expect(done.body.data).toMatchObject({
      status: 'completed',
      billing: { reserved: 4, charged: 4 },
      result: { durationSeconds: 4 },
    });
    expect(gateway.media.requests('/film.mp4')).toBe(1);
  });

  it('gets no larger picture in a batch that repeats a URL', async () => {
    const imageUrl = swap('/twice.png', await drawDisc(64, 64), await drawDisc(300, 300));
    const answer = await callTool('image/batch', {
      operation: 'upscale',
      service: 'service_b',
      imageUrls: [imageUrl, imageUrl],
    });
    expect(answer.body.data.results.map(({ success }) => success)).toEqual([true, true]);
    expect(gateway.media.requests('/twice.png')).toBe(1);
    const jobId = await checkSubmits();
    const outputs = await gateway.database.query<{ width: number }>(
      `SELECT (a->>'width')::float8 AS width FROM job,
        jsonb_path_query(outputs, '$[*].artifacts[*]') AS a WHERE id = $1`,
      [jobId],
    );
    expect(outputs).toEqual([{ width: 128 }, { width: 128 }]);
  });
});

describe('a copy of an input', () => {
  it('is removed when the request is rejected for a too large result or for lack of credits', async () => {
    const before = (await listCopies()).length;
    const imageUrl = gateway.media.put('/huge.png', await drawDisc(3000, 2500));
    const large = await callTool('image/upscale', { imageUrl, scaleFactor: 4 });
    expect(large.body.error).toBe('INVALID_REQUEST');
    const poor = await gateway.newCaller({ credits: 1 });
    expect((await callTool('image/upscale', { imageUrl }, poor)).status).toBe(402);
    expect(await listCopies()).toHaveLength(before);
  });

  it('is kept while its job is open, removed when the job is settled, and never readable through the API', async () => {
    const imageUrl = gateway.media.put('/kept.png', await drawDisc(64, 64));
    await gateway.sandbox.inject({ match: 'topaz', faults: 'slow:900s', times: 1 });
    const { jobId } = (await callTool('image/upscale', { imageUrl, async: true })).body.data;
    const [storageKey = ''] = await listJobCopies(jobId);
    const { storage, copies: kept } = gateway.api.services;
    await kept.sweep();
    expect(await storage.size(storageKey)).toBeGreaterThan(0);
    const copyUrl = await storage.urlOf(storageKey, 60_000);
    expect((await callTool('image/upscale', { imageUrl: copyUrl })).body).toMatchObject({
      error: 'INVALID_INPUT_URL',
      details: [{ path: 'imageUrl' }],
    });
    await gateway.cancel(jobId);
    await gateway.untilDone(jobId);
    await kept.sweep();
    expect(await storage.size(storageKey)).toBeNull();
    expect(await listJobCopies(jobId)).toEqual([]);
  });

  it.each([
    ['that says it has too many bytes', true],
    ['that has too many bytes and does not say so', false],
  ])('is not made of a picture %s', async (_name, hasLength) => {
    const before = (await listCopies()).length;
    const bytes = Buffer.concat([await drawDisc(64, 64), Buffer.alloc(26 * 1024 * 1024)]);
    const imageUrl = gateway.media.serve(`/${hasLength}.png`, (response) => {
      if (hasLength) response.setHeader('content-length', bytes.length);
      response.write(bytes);
      response.end();
    });
    const answer = await callTool('image/upscale', { imageUrl });
    expect(answer.body.error).toBe('INVALID_INPUT_URL');
    expect(answer.body.message).toContain('more than 26214400 bytes');
    expect(await listCopies()).toHaveLength(before);
  });

  it('stops after the first bytes of a file that is not a picture', async () => {
    let sentBytes = 0;
    const imageUrl = gateway.media.serve('/endless', (response) => {
      const chunk = Buffer.alloc(64 * 1024, 'text');
      const more = () => {
        sentBytes += chunk.length;
        if (!response.destroyed && response.write(chunk)) setImmediate(more);
      };
      response.on('drain', more);
      more();
    });
    const answer = await callTool('image/upscale', { imageUrl });
    expect(answer.body.message).toBe(
      'imageUrl: is of an unknown format; accepted are PNG, JPEG, WebP, GIF, HEIC and AVIF',
    );
    expect(sentBytes).toBeLessThan(20 * 1024 * 1024);
  });
});
