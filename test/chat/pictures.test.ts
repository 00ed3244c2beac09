/** Pictures in chats by URL, by data and by the id of an upload; video by data. */
import { beforeAll, describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { uploadFile } from '../harness/uploads.ts';
import { readChats, untilAllSettled } from './chat-account.ts';
import { onePixel, onePixelUrl, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
let caller: TestCaller;
let fileId = '';

const upload = async (owner: TestCaller) =>
  (await uploadFile(gateway, await drawDisc(40, 30), {}, owner.key)).fileId;

beforeAll(async () => {
  caller = await gateway.newCaller({ credits: 100 });
  fileId = await upload(caller);
});

const models = { openai: 'gpt-4o', anthropic: 'claude-sonnet-5' };
const ask = (content: unknown) => [{ role: 'user', content: [content] }];
type Body = (id: string) => object;
const field = 'messages.0.content.0.file_id';
const requests: [path: string, field: string, body: Body][] = [
  ['/api/v1/chat', field, (file_id) => ({ messages: ask({ type: 'file', file: { file_id } }) })],
  [
    '/api/v1/chat/completions',
    field,
    (url) => ({ messages: ask({ type: 'image_url', image_url: { url } }) }),
  ],
  ...['input_image', 'input_file'].map((type): [string, string, Body] => [
    '/api/v1/responses',
    'input.0.content.0.file_id',
    (file_id) => ({ input: ask({ type, file_id }) }),
  ]),
  ...['image', 'document'].map((type): [string, string, Body] => [
    '/api/v1/messages',
    'messages.0.content.0.source.file_id',
    (file_id) => ({ max_tokens: 50, messages: ask({ type, source: { type: 'file', file_id } }) }),
  ]),
];

describe.each(requests)('an uploaded picture on %s', (path, at, body) => {
  it.each(Object.values(models))('reaches %s by a signed URL', async (model) => {
    const answer = await gateway.call(path, { key: caller.key, body: { model, ...body(fileId) } });
    expect([answer.status, JSON.stringify(answer.body)]).toEqual([
      200,
      expect.stringContaining('I see 1 image(s).'),
    ]);
    const [sent] = (await gateway.sandbox.chatRequests(fileId)).slice(-1);
    const [url] = /http[^"]+/.exec(JSON.stringify(sent)) ?? [];
    const read = await fetch(url ?? '');
    expect([read.status, read.headers.get('content-type')]).toEqual([200, 'image/png']);
    // The URL stays the same for a day, so that the provider finds it in its prompt cache.
    const expires = Number(new URL(url ?? '').searchParams.get('expires'));
    expect(expires % 86_400).toBe(0);
  });

  it('is rejected by its field if it is unknown or of another organization', async () => {
    const foreign = await upload(await gateway.newCaller({ credits: 100 }));
    const asking = await gateway.newCaller({ credits: 100 });
    for (const id of [foreign, `file_${'0'.repeat(32)}`]) {
      for (const each of path === '/api/v1/chat' ? [path, `${path}/estimate`] : [path]) {
        const sent = { model: models.openai, ...body(id) };
        const answer = await gateway.call(each, { key: asking.key, body: sent });
        expect([answer.status, JSON.stringify(answer.body)]).toEqual([
          400,
          expect.stringContaining(`${at}: is not a file of this organization`),
        ]);
      }
    }
    expect(await readChats(gateway, asking)).toEqual([]);
  });
});

describe('a video', () => {
  const url = 'data:video/mp4;base64,AAAA';
  const send = (model: string, video: string) =>
    gateway.call('/api/v1/chat/completions', {
      key: caller.key,
      body: { model, messages: ask({ type: 'video_url', video_url: { url: video } }) },
    });

  it('reaches a model that accepts video, and is charged as reported', async () => {
    expect((await send('kimi-k3', url)).status).toBe(200);
    const [sent] = (await gateway.sandbox.chatRequests(url)).slice(-1);
    expect(JSON.stringify(sent)).toContain('{"type":"video_url","video_url":{"url":"data:');
    expect((await untilAllSettled(gateway, caller)).at(-1)).toMatchObject({
      counted_by: 'provider',
    });
  });

  it.each([
    ['a model that does not accept video', 'gpt-4o', url, 'gpt-4o does not accept video'],
    ['a URL', 'kimi-k3', 'https://x.example/a.mp4', 'must be a data URI of a video'],
  ])('is rejected for %s', async (_title, model, video, message) => {
    const answer = await send(model, video);
    expect([answer.status, answer.body.message]).toEqual([400, expect.stringContaining(message)]);
  });
});

describe('pictures by URL', () => {
  const picture = 'https://example.com/a.png';
  const imageParts = [
    { type: 'image_url' as const, image_url: { url: onePixelUrl } },
    { type: 'image_url' as const, image_url: { url: picture, detail: 'low' as const } },
  ];
  it.each([
    ['gpt-4o', imageParts],
    [
      'claude-sonnet-5',
      [
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: onePixel } },
        { type: 'image', source: { type: 'url', url: picture } },
      ],
    ],
  ])('reach %s in the format of its protocol', async (model, parts) => {
    const text = `what ${model} sees`;
    const content = [{ type: 'text' as const, text }, ...imageParts];
    const answer = await clients.complete({ model, messages: [{ role: 'user', content }] });
    expect(answer.choices[0]?.message.content).toContain('I see 2 image(s).');
    const [witness] = await gateway.sandbox.chatRequests(text);
    expect(witness?.['messages']).toEqual([
      { role: 'user', content: [{ type: 'text', text }, ...parts] },
    ]);
  });

  it('and data that is no picture is rejected before the provider call', async () => {
    const image_url = { url: 'data:text/html;base64,PGI+' };
    const content = [{ type: 'image_url' as const, image_url }];
    await expect(
      clients.complete({ model: 'gpt-4o', messages: [{ role: 'user', content }] }),
    ).rejects.toMatchObject({ status: 400, code: 'INVALID_INPUT_URL' });
  });
});
