/** `data:` URLs as inputs of Studio requests, and too large pictures by each way. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { drawDisc, download } from '../harness/media.ts';
import { makeForm, putFile, signUpload } from '../harness/uploads.ts';

const gateway = useGateway({ settled: 'last' });
let caller: TestCaller;
let picture: string;

beforeEach(async () => {
  caller = await gateway.newCaller({ credits: 1000 });
  picture = pngUrl(await drawDisc(200, 150));
});

const pngUrl = (bytes: Buffer) => `data:image/png;base64,${bytes.toString('base64')}`;
const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  gateway.call(`/api/v1/studio/${path}`, { key: caller.key, body, headers });
const readUploads = () => gateway.database.uploadIds(caller.organizationId);
const readJobs = () => gateway.database.jobs(caller.organizationId);

describe('a data URL', () => {
  it('is accepted as the picture of an edit, stored as an upload, and gives the same job for the same key', async () => {
    const body = { prompt: 'add a hat', imageUrls: [picture] };
    const first = await post('image/edit', body, { 'idempotency-key': 'k' });
    expect(first).toMatchObject({ status: 200, body: { data: { images: [{}] } } });
    const [job] = await readJobs();
    expect(job?.request['imageUrls']).toEqual([expect.stringMatching(/^file_/)]);
    const again = await post('image/edit', body, { 'idempotency-key': 'k' });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    await expect.poll(readUploads).toHaveLength(1);
  });

  it('that is sent twice is stored once, and leaves no file in the spool', async () => {
    const spool = join(gateway.config.STORAGE_DIR, 'spool');
    // Other test files share the spool.
    const before = new Set(await readdir(spool));
    const body = { prompt: 'add a hat', imageUrls: [picture, picture] };
    const { data } = (await post('image/edit', body)).body;
    expect(data.images).toHaveLength(1);
    await expect
      .poll(async () => (await readdir(spool)).filter((name) => !before.has(name)))
      .toEqual([]);
    await expect.poll(readUploads).toHaveLength(1);
  });

  it('is accepted as the recording of a transcription', async () => {
    const speech = await post('voiceover/generate', { text: 'One two three.', title: 'a talk' });
    const bytes = await download(speech.body.data.url);
    const audioUrl = `data:audio/mpeg;base64,${bytes.toString('base64')}`;
    const text = expect.stringMatching(/\w/);
    const spoken = await post('audio/transcribe', { audioUrl });
    expect(spoken).toMatchObject({ status: 200, body: { data: { text } } });
  });

  it('is measured for an estimate, without storing its file, and for the call', async () => {
    const request = { imageUrl: picture, scaleFactor: 2 };
    expect((await post('image/upscale/estimate', request)).body.data).toMatchObject({ credits: 8 });
    await expect.poll(readUploads).toEqual([]);
    expect((await post('image/upscale', request)).body.credits.used).toBe(8);
  });

  it.each([
    ['without Base64', 'data:image/png,abc', 'INVALID_INPUT_URL', 'must be data:TYPE;base64,DATA'],
    ['with wrong Base64', 'data:image/png;base64,a b', 'INVALID_INPUT_URL', 'valid Base64'],
    ['of text', pngUrl(Buffer.from('no picture')), 'UNSUPPORTED_MEDIA_TYPE', 'imageUrl'],
    [
      'of more than 1 MB',
      pngUrl(Buffer.alloc(1_100_000, 1)),
      'FILE_TOO_LARGE',
      'at most 1048576 bytes',
    ],
  ])('%s is rejected, and nothing is stored', async (_title, imageUrl, error, message) => {
    const answer = await post('image/upscale', { imageUrl });
    expect(answer.body).toMatchObject({ error, message: expect.stringContaining(message) });
    expect(answer.status).toBeLessThan(500);
    await expect.poll(readUploads).toEqual([]);
    expect(await readJobs()).toEqual([]);
  });

  it('that follows ten pictures and a mask is rejected, and no further one is received', async () => {
    const dot = pngUrl(await drawDisc(1, 1));
    const imageUrls = Array.from({ length: 8000 }, () => dot);
    const startedAt = performance.now();
    const answer = await post('image/edit', { prompt: 'join them', imageUrls });
    expect(answer).toMatchObject({ status: 400, body: { details: [{ path: 'imageUrls.11' }] } });
    // To receive all of them takes a minute.
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  it('in an unknown field is rejected and not stored', async () => {
    const answer = await post('image/generate', { prompt: 'a tree', pictureUrl: picture });
    expect(answer).toMatchObject({ status: 400, body: { details: [{ path: 'pictureUrl' }] } });
    await expect.poll(readUploads).toEqual([]);
  });
});

describe('a picture of 81 megapixels is rejected with 413, and no credits are reserved', async () => {
  const large = await readFile(join(import.meta.dirname, '../storage/media/81mp.png'));
  const byUrl = () => gateway.media.put('/large.png', large);
  const inForm = (name: string) => ({ [name]: new File([new Uint8Array(large)], 'large.png') });
  const sendForm = (path: string, fields: Record<string, string | File>) =>
    gateway.call(`/v1/${path}`, { key: caller.key, body: makeForm(fields) });
  const prompt = 'a hat';
  const masked = { prompt, model: 'alpha-image-2' };
  const tools: [string, (url: string) => object][] = [
    ['image/remove-background', (imageUrl) => ({ imageUrl })],
    ['image/upscale', (imageUrl) => ({ imageUrl })],
    ['image/edit', (url) => ({ prompt, imageUrls: [picture, url] })],
    ['image/edit', (maskUrl) => ({ ...masked, imageUrls: [picture], maskUrl })],
    ['image/generate', (url) => ({ prompt, imageUrls: [url] })],
    ['image/batch', (url) => ({ operation: 'remove-background', imageUrls: [url, url] })],
    ['video/generate', (imageUrl) => ({ prompt, imageUrl })],
    ['video/generate', (endImageUrl) => ({ prompt, imageUrl: picture, endImageUrl })],
    ['video/generate', (url) => ({ prompt, model: 'seedance-2.0', referenceUrls: [url] })],
  ];
  const ways: [string, () => Promise<{ status: number; body: object }>][] = [
    ...tools.flatMap(([path, fields], at): typeof ways => [
      [`${path} ${at} by URL`, () => post(path, fields(byUrl()))],
      [`${path} ${at} by data URL`, () => post(path, fields(pngUrl(large)))],
      [`the estimate of ${path} ${at}`, () => post(`${path}/estimate`, fields(byUrl()))],
    ]),
    ['/images/edits', () => sendForm('images/edits', { prompt, ...inForm('image') })],
    ['/videos', () => sendForm('videos', { prompt, ...inForm('input_reference') })],
    [
      'an upload',
      async () => {
        const sent = await putFile(await signUpload(gateway, {}, caller.key), large);
        return { status: sent.status, body: (await sent.json()) as object };
      },
    ],
  ];
  it.each(ways)('%s', async (_way, sendIt) => {
    const { status, body } = await sendIt();
    expect(JSON.stringify(body)).toContain('at most 64000000 are allowed');
    expect(status).toBe(413);
    expect(await readJobs()).toEqual([]);
  });
});
