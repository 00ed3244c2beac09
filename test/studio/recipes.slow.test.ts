/**
 * Saved recipes: a request that names one is treated exactly like a request that contains its fields,
 * at each endpoint that accepts it, and refused by name at each other one.
 */
import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { BulkItemResource, BulkResource } from '../../bulk/bulk-view.ts';
import { command } from '../../platform/database.ts';
import type { JobResource } from '../../studio/jobs/job-view.ts';
import { recipeBytesMax, versionsMax } from '../../studio/requests/recipe-versions.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
const path = '/api/v1/studio/recipes';
const imagePath = '/api/v1/studio/image/generate';

interface Saved {
  name: string;
  version: string;
  use: string;
  body: Record<string, unknown>;
  versions: { version: string }[];
}
interface Answer<Data> {
  data: Data;
  error: string;
  details: { path: string; message: string }[];
}
interface Sent {
  caller?: TestCaller;
  use?: string;
}
const put = (name: string, body: object, { caller, use = 'image/generate' }: Sent = {}) =>
  gateway.call<Answer<Saved>>(`${path}/${name}`, {
    method: 'PUT',
    key: caller?.key ?? gateway.caller.key,
    body: { use, body },
  });
async function save(name: string, body: object, sent: Sent = {}): Promise<string> {
  const answer = await put(name, body, sent);
  expect(answer, JSON.stringify(answer.body)).toMatchObject({
    status: 200,
    body: { data: { name, body } },
  });
  return `${name}@${answer.body.data.version}`;
}
const refusal = (field: string, message: unknown, error = 'INVALID_REQUEST') => ({
  status: 400,
  body: { error, details: [{ path: field, message }] },
});
const readJob = async (jobId: string) =>
  (await gateway.call<Answer<JobResource>>(`/api/v1/studio/jobs/${jobId}`)).body.data;
const readRequest = async (jobId: string) =>
  (await gateway.call<Answer<{ request: object }>>(`/api/v1/studio/jobs/${jobId}/timeline`)).body
    .data.request;

describe.concurrent('a request that names a recipe', () => {
  it('is the request with its fields: price, stored request, replay; and the job shows the version', async () => {
    const fields = { aspectRatio: '16:9', numImages: 2, metadata: { team: 'ads' } };
    const reference = await save('banner', fields);
    const body = { recipe: 'banner', prompt: 'a red lamp', numImages: 3, async: true };
    const { recipe: _, ...inlined } = { ...fields, ...body };
    const estimates = await Promise.all(
      [body, inlined].map((one) =>
        gateway.call<Answer<{ credits: number }>>(`${imagePath}/estimate`, { body: one }),
      ),
    );
    expect(estimates[0]?.status).toBe(200);
    expect(estimates[0]?.body).toEqual(estimates[1]?.body);
    const headers = { 'idempotency-key': newId('request') };
    const started = await gateway.call(imagePath, { body, headers });
    const { jobId } = started.body.data;
    const again = await gateway.call(imagePath, { body: inlined, headers });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(again.body.data.jobId).toBe(jobId);
    const other = await gateway.call(imagePath, { body: { ...body, numImages: 1 }, headers });
    expect(other.body).toMatchObject({ error: 'IDEMPOTENCY_KEY_REUSED' });
    await gateway.untilDone(jobId);
    expect(await readJob(jobId)).toMatchObject({
      recipe: reference,
      metadata: { team: 'ads' },
      billing: {
        charged: estimates[0]?.body.data.credits,
      },
    });
    expect(await readRequest(jobId)).toMatchObject({
      prompt: 'a red lamp',
      aspectRatio: '16:9',
      numImages: 3,
    });
    await gateway.send(`${path}/banner`, { method: 'DELETE' });
    expect(await readJob(jobId)).toMatchObject({ recipe: reference, status: 'completed' });
  });

  it('uses the newest version, or the one that it names', async () => {
    const first = await save('poster', { prompt: 'a blue lamp' });
    const second = await save('poster', { prompt: 'a green lamp' });
    const start = async (recipe: string) =>
      (await gateway.call(imagePath, { body: { recipe, async: true } })).body.data.jobId;
    const jobIds = [await start('poster'), await start(first)];
    // The same content is the same version, which is the newest again.
    expect(await save('poster', { prompt: 'a blue lamp' })).toBe(first);
    await Promise.all(jobIds.map((jobId) => gateway.untilDone(jobId)));
    const used = await Promise.all(jobIds.map(readJob));
    expect(used.map(({ recipe, prompt }) => [recipe, prompt])).toEqual([
      [second, 'a green lamp'],
      [first, 'a blue lamp'],
    ]);
    const { body } = await gateway.call<Answer<Saved>>(`${path}/poster`);
    expect(body.data.versions.map(({ version }) => `poster@${version}`)).toEqual([first, second]);
    await gateway.send(`${path}/${first}`, { method: 'DELETE' });
    const left = await gateway.call<Answer<Saved>>(`${path}/poster`);
    expect(left.body.data).toMatchObject({ body: { prompt: 'a green lamp' }, versions: [{}] });
  });

  it('is checked as if it contained the fields, and errors name them', async () => {
    await save('square', { aspectRatio: '1:1' });
    const send = (body: object, where = imagePath) => gateway.call<Answer<object>>(where, { body });
    expect(await send({ recipe: 'square' })).toMatchObject(
      refusal('prompt', expect.stringContaining('is required')),
    );
    expect(await send({ recipe: 'none', prompt: 'a lamp' })).toMatchObject(
      refusal('recipe', 'must be a recipe of this organization (received none)'),
    );
    for (const recipe of [7, 'a b', 'square@1', null])
      expect(await send({ recipe, prompt: 'a lamp' })).toMatchObject(
        refusal('recipe', expect.stringContaining('must be ')),
      );
    expect(
      await send({ recipe: 'square', prompt: 'a lamp' }, '/api/v1/studio/video/generate'),
    ).toMatchObject(
      refusal('recipe', 'must be a recipe for video/generate; square is one for image/generate'),
    );
    const chatOnly = await gateway.newCaller({ credits: 100, scopes: ['studio:read'] });
    expect(
      await gateway.call(imagePath, {
        key: chatOnly.key,
        body: { recipe: 'square', prompt: 'a lamp' },
      }),
    ).toMatchObject({ status: 403 });
  });

  it('is refused by name where recipes are unknown', async () => {
    const steps = [{ id: 'art', use: 'image/generate', body: { recipe: 'x', prompt: 'a lamp' } }];
    const attempts: [string, object, string][] = [
      ['/images/generations', { model: 'ideogram-v3', prompt: 'a lamp' }, 'recipe'],
      ['/audio/speech', { model: 'tts-1', input: 'a lamp', voice: 'alloy' }, 'recipe'],
      ['/videos', { model: 'sora-2', prompt: 'a lamp' }, 'recipe'],
      ['/chat/completions', { model: 'x', messages: [{ role: 'user', content: 'hi' }] }, 'recipe'],
      ['/studio/pipelines', { steps, recipe: undefined }, 'steps.0.body.recipe'],
    ];
    for (const [route, fields, field] of attempts) {
      const { status, text } = await send(route, { recipe: 'x', ...fields });
      expect({ route, status, text }).toMatchObject({
        route,
        status: 400,
        text: expect.stringContaining(`${field}: must be absent`),
      });
    }
    async function send(route: string, body: object) {
      const { status, body: answer } = await gateway.call<object>(`/api/v1${route}`, { body });
      return { status, text: JSON.stringify(answer) };
    }
  });

  it('can be a form or a pipeline', async () => {
    await save(
      'speech',
      { language: 'en', metadata: { team: 'ads' } },
      { use: 'audio/transcribe' },
    );
    const form = new FormData();
    form.set('recipe', 'speech');
    const where = '/api/v1/studio/audio/transcribe';
    const formAnswer = await gateway.call<Answer<object>>(where, { body: form });
    const jsonAnswer = await gateway.call<Answer<object>>(where, { body: { language: 'en' } });
    expect(formAnswer.body.details).toEqual(jsonAnswer.body.details);
    const steps = [{ id: 'art', use: 'image/generate', body: { prompt: 'a lamp' } }];
    await save('film', { steps }, { use: 'pipelines' });
    const estimate = '/api/v1/studio/pipelines/estimate';
    const named = await gateway.call(estimate, { body: { recipe: 'film', maxCredits: 500 } });
    expect(named).toMatchObject({ status: 200, body: { data: { credits: 3.9 } } });
    const inlined = await gateway.call(estimate, { body: { steps, maxCredits: 500 } });
    expect(named.body).toEqual(inlined.body);
  });
});

describe.concurrent('a bulk job', () => {
  const start = (body: object | string) =>
    gateway.call<Answer<BulkResource>>('/api/v1/studio/bulk', {
      body,
      ...(typeof body === 'string' && { headers: { 'content-type': 'application/x-ndjson' } }),
    });
  async function run(body: object | string) {
    const started = await start(body);
    expect(started.status, JSON.stringify(started.body)).toBe(202);
    const { bulkId } = started.body.data;
    let bulk = started.body.data;
    while (!bulk.done)
      bulk = (await gateway.call<Answer<BulkResource>>(`/api/v1/studio/bulk/${bulkId}?wait=20`))
        .body.data;
    const { body: items } = await gateway.call<Answer<BulkItemResource[]>>(
      `/api/v1/studio/bulk/${bulkId}/items`,
    );
    const jobs = await Promise.all(items.data.map(({ jobId }) => readJob(jobId ?? '')));
    return { bulk, jobs: jobs.map(({ recipe, prompt }) => [recipe, prompt]) };
  }

  it('takes items and options from a recipe, and items take recipes of their own', async () => {
    const style = await save('style', { aspectRatio: '1:1', prompt: 'a lamp' });
    const items = [
      { use: 'image/generate', body: { prompt: 'a chair' } },
      { use: 'image/generate', body: { recipe: 'style' } },
    ];
    const catalog = await save('catalog', { items, concurrency: 2 }, { use: 'bulk' });
    const whole = await run({ recipe: 'catalog' });
    expect(whole).toMatchObject({ bulk: { recipe: catalog, concurrency: 2 } });
    expect(whole.jobs).toEqual([
      [catalog, 'a chair'],
      [style, 'a lamp'],
    ]);
    const lines = [
      {
        options: {
          recipe: 'catalog',
          defaults: { use: 'image/generate', body: { recipe: style } },
        },
      },
      { body: { prompt: 'a table' } },
    ];
    const other = await run(lines.map((line) => JSON.stringify(line)).join('\n'));
    expect(other.jobs).toEqual([[style, 'a table']]);
  });

  it('names the item whose recipe is unknown, and its body that is no object', async () => {
    const unknown = { use: 'image/generate', body: { recipe: 'none' } };
    expect(await start({ items: [unknown] })).toMatchObject(
      refusal(
        'items.0.body.recipe',
        expect.stringContaining('must be a recipe of this organization'),
      ),
    );
    await save('shared', { prompt: 'a lamp' });
    const defaults = { use: 'image/generate', body: { recipe: 'shared' } };
    expect(await start({ items: [{ body: 'x' }], defaults })).toMatchObject(
      refusal('items.0.body', expect.any(String)),
    );
    expect(await start({ items: ['x'], defaults })).toMatchObject(
      refusal('items.0', expect.any(String)),
    );
    expect(await start({ recipe: 'none' })).toMatchObject(refusal('recipe', expect.any(String)));
    expect(await start(JSON.stringify({ options: { recipe: 'none' } }))).toMatchObject(
      refusal('options.recipe', expect.any(String)),
    );
  });
});

describe.concurrent('saving a recipe', () => {
  it('checks the fields that are present, and the use', async () => {
    const refused: [object, string, string | undefined][] = [
      [{ prompt: 7 }, 'body.prompt', undefined],
      [{ promt: 'a lamp' }, 'body.promt', undefined],
      [{ recipe: 'other' }, 'body.recipe', undefined],
      [{ webhookUrl: 'https://shop.example/' }, 'body.webhookUrl', undefined],
      [{ metadata: { 'a b': 'c' } }, 'body.metadata', undefined],
      [{ concurrency: 0 }, 'body.concurrency', 'bulk'],
    ];
    for (const [body, field, use] of refused)
      expect(await put('bad', body, use === undefined ? {} : { use })).toMatchObject({
        status: 400,
        body: { error: 'INVALID_REQUEST', details: [{ path: field }] },
      });
    expect(await put('a%20b', {})).toMatchObject(
      refusal('recipe', expect.stringContaining('must be 1–64 characters')),
    );
    expect(await put('bad', {}, { use: 'chat' })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'use' }] },
    });
    await save('still', { prompt: 'a lamp' });
    expect(await put('still', { prompt: 'a lamp' }, { use: 'video/generate' })).toMatchObject(
      refusal(
        'use',
        'must be image/generate, as in the other versions of still (received video/generate)',
      ),
    );
  });

  it('needs the scope of the use, and is limited in number and bytes', async () => {
    const caller = await gateway.newCaller({ credits: 1, scopes: ['studio:image', 'studio:read'] });
    await save('mine', { prompt: 'a lamp' }, { caller });
    expect(await put('films', {}, { caller, use: 'video/generate' })).toMatchObject({
      status: 403,
      body: { error: 'FORBIDDEN' },
    });
    const { organizationId, keyId } = caller;
    await gateway.api.services.pool
      .query(command`INSERT INTO recipe (organization_id, name, version, use, body, size_bytes, key_id)
      SELECT ${organizationId}, 'mine', lpad(n::text, 16, '0'), 'image/generate', '{}', 10, ${keyId} FROM generate_series(2, ${versionsMax}) AS n`);
    expect(await put('mine', { prompt: 'a chair' }, { caller })).toMatchObject({
      status: 400,
      body: { error: 'RECIPE_QUOTA_REACHED' },
    });
    await save('mine', { prompt: 'a lamp' }, { caller });
    await gateway.api.services.pool
      .query(command`UPDATE recipe SET size_bytes = ${recipeBytesMax} WHERE organization_id = ${organizationId}
      AND version = lpad('2', 16, '0')`);
    expect(await put('new', {}, { caller })).toMatchObject({
      status: 400,
      body: { error: 'RECIPE_QUOTA_REACHED', message: expect.stringContaining('bytes of recipes') },
    });
  });
});
