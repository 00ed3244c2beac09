/**
 * The content of a 400 response: the field, the allowed values, the received value, and the likely
 * intended value. Bodies, queries and forms use one format, and never a library's own message.
 */
import { describe, expect, it } from 'vitest';
import { generateApiKey } from '../../api/identity/key-format.ts';
import { useGateway, type StudioBody } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

const prompt = 'a harbour';
const libraryWords = /Invalid|expected|, received|Unrecognized|Too (?:big|small)|NaN|undefined|zod/;

function expectWords(body: StudioBody, path: string, words: string): void {
  expect(body.details[0]).toEqual({ path, message: words });
  expect(JSON.stringify(body)).not.toMatch(libraryWords);
}

type Row = [to: string, body: object, path: string, words: string];
const studio: Row[] = [
  [
    'image/upscale',
    { scaleFactor: 3 },
    'imageUrl',
    'is required: an http(s) URL, the id of an uploaded file, or a data URL of up to 1 MB',
  ],
  [
    'image/upscale',
    { imageUrl: 'https://example.com/a.png', scaleFactor: 3 },
    'scaleFactor',
    'must be one of 2, 4, 6 (received 3)',
  ],
  ['image/generate', {}, 'prompt', 'is required: a string of 3–2000 characters'],
  ['image/generate', { prompt: 'ab' }, 'prompt', 'must be a string of 3–2000 characters (has 2)'],
  [
    'image/generate',
    { prompt: '🌊'.repeat(2001) },
    'prompt',
    'must be a string of 3–2000 characters (has 2001)',
  ],
  [
    'image/generate',
    { prompt: ['a', 'b'] },
    'prompt',
    'must be a string of 3–2000 characters (received an array of 2)',
  ],
  ['image/generate', { prompt: '   ' }, 'prompt', 'must not be blank (received "   ")'],
  [
    'image/generate',
    { prompt, numImages: '2' },
    'numImages',
    'must be an integer of 1–10 (received "2")',
  ],
  ['image/generate', { prompt, async: 'yes' }, 'async', 'must be true or false (received "yes")'],
  [
    'image/generate',
    { prompt, outputFormat: 'jpg' },
    'outputFormat',
    'must be one of jpeg, png, webp (received "jpg"; did you mean jpeg?)',
  ],
  [
    'image/generate',
    { prompt, aspectRatio: '16x9' },
    'aspectRatio',
    expect.stringMatching(
      /^must be one of .*16:9.* for nano-banana \(received "16x9"; did you mean 16:9\?\)$/,
    ) as string,
  ],
  [
    'image/edit',
    { prompt, imageUrls: 'https://example.com/a.png?signature=abc' },
    'imageUrls',
    'must be an array of 1–10 items (received "https://example.com/a.png?…")',
  ],
  [
    'voiceover/generate',
    { text: 'hi', title: 't', voice: 'raechel' },
    'voice',
    expect.stringMatching(/\(received "raechel"; did you mean rachel\?\)$/) as string,
  ],
  [
    'dialogue/generate',
    { title: 't', inputs: [{ text: 'hi', voiceId: 'adam', speed: 2 }] },
    'inputs.0.speed',
    'unknown field; allowed: text, voiceId',
  ],
  [
    'image/batch',
    { operation: 'upscale', imageURLs: [] },
    'imageURLs',
    expect.stringMatching(
      /^unknown field; did you mean imageUrls\?; allowed: operation, /,
    ) as string,
  ],
  [
    'music/generate',
    { prompt, webhookUrl: 'http://example.com' },
    'webhookUrl',
    'must be an https URL',
  ],
];

describe('a Studio request', () => {
  it.each(studio)(
    'for %s with %j gets an error for the field %s: %s',
    async (to, body, path, words) => {
      const answer = await gateway.call(`/api/v1/studio/${to}`, { body });
      expect([answer.status, answer.body.error]).toEqual([400, 'INVALID_REQUEST']);
      expectWords(answer.body, path, words);
      expect(answer.body.message).toBe(`${path}: ${answer.body.details[0]?.message}`);
    },
  );

  it.each([
    ['image/generate', { prompt, model: 'nanobanana-pro' }, 'model', 'nano-banana-pro'],
    [
      'image/upscale',
      { imageUrl: 'https://example.com/a', service: 'service-b' },
      'service',
      'service_b',
    ],
    ['music/plan', { prompt, model_id: 'musicv1' }, 'model_id', 'music_v1'],
    ['video/generate', { prompt, model: 'kling' }, 'model', 'kling-3.0-pro'],
  ])(
    'for %s with %j gets a message that suggests the likely intended model',
    async (to, body, path, right) => {
      const answer = await gateway.call(`/api/v1/studio/${to}`, { body });
      expect([answer.status, answer.body.error]).toEqual([400, 'UNKNOWN_MODEL']);
      expect(answer.body.details[0]).toEqual({
        path,
        message: expect.stringMatching(
          new RegExp(`^must be one of .*; did you mean ${right}\\?\\)$`),
        ),
      });
    },
  );

  it('gets each field once in the details, however many rules the field breaks', async () => {
    const body = { prompt, imageUrls: 'https://example.com/longer-than-ten', seed: -1, mask: 1 };
    const answer = await gateway.call('/api/v1/studio/image/edit', { body });
    expect(answer.body.details.map(({ path }) => path)).toEqual(['imageUrls', 'seed', 'mask']);
  });

  it.each(['gk_live_', 'gk_oper_'])('never gets a likely secret back (%s)', async (prefix) => {
    const body = { text: 'hi', title: 't', voice: generateApiKey(prefix) };
    const answer = await gateway.call('/api/v1/studio/voiceover/generate', { body });
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.body)).not.toContain(prefix);
    expect(answer.body.details[0]?.message).toMatch(/\(received a secret\)$/);
  });
});

describe('a chat', () => {
  const image = { type: 'image_url', image_url: { url: 5 } };
  const url = 'messages.0.content.0.image_url.url';
  it.each<[object, string, RegExp]>([
    [{ temperature: 3 }, 'temperature', /^must be a number of 0–2 \(received 3\)$/],
    [{ temprature: 1 }, 'temprature', /did you mean temperature\?/],
    [
      { messages: [] },
      'messages',
      /^must contain at least one message \(received an array of 0\)$/,
    ],
    [
      { messages: [{ role: 'usr', content: 'hi' }] },
      'messages.0.role',
      /^must be one of system, user, assistant \(received "usr"\)$/,
    ],
    [
      { messages: [{ role: 'user', content: [image] }] },
      url,
      /^must be a string of .* characters \(received 5\)/,
    ],
  ])('with %j gets an error for the field %s: %s', async (fields, path, words) => {
    const messages = [{ role: 'user', content: 'hi' }];
    const body = { model: 'gpt-4o', messages, ...fields };
    const answer = await gateway.call('/api/v1/chat', { body });
    expect(answer.status).toBe(400);
    expectWords(answer.body, path, expect.stringMatching(words) as string);
  });

  it('with only system messages is rejected for a model that cannot respond to them', async () => {
    const body = { model: 'claude-opus-5', messages: [{ role: 'system', content: 'be kind' }] };
    const answer = await gateway.call('/api/v1/chat', { body });
    expect([answer.status, answer.body.error]).toEqual([400, 'INVALID_REQUEST']);
    expect(answer.body.details[0]?.path).toBe('messages');
  });
});

describe('a query', () => {
  it.each([
    ['/api/v1/usage?limit=x', 'limit', 'must be an integer of 1–100 (received "x")'],
    ['/api/v1/usage?limit=101', 'limit', 'must be an integer of 1–100 (received "101")'],
    ['/api/v1/usage?limit=1&limit=2', 'limit', 'must not be repeated (received 2)'],
    [
      '/api/v1/usage?foo=1',
      'foo',
      'unknown query parameter; allowed: model, keyId, after, before, metadata, type, status, limit, cursor',
    ],
    [
      '/api/v1/usage?after=2026-11-22',
      'after',
      'must be a date and time with a time zone, such as 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+02:00 (received "2026-11-22")',
    ],
    [
      '/api/v1/studio/jobs?status=done',
      'status',
      'must be one of queued, in_progress, completed, failed, canceled (received "done")',
    ],
    [
      '/api/v1/studio/jobs/job_00000000000000000000000000000000?foo=1',
      'foo',
      'unknown query parameter; allowed: wait',
    ],
  ])('for %s gets an error for the parameter %s: %s', async (path, field, words) => {
    const answer = await gateway.call(path);
    expect([answer.status, answer.body.error]).toEqual([400, 'INVALID_REQUEST']);
    expectWords(answer.body, field, words);
  });

  it('parameter that a Studio endpoint does not know is rejected, and nothing is charged', async () => {
    const path = '/api/v1/studio/image/generate?dryRun=true';
    const answer = await gateway.call(path, { body: { prompt } });
    expect(answer.status).toBe(400);
    expectWords(answer.body, 'dryRun', 'this endpoint has no query parameters');
  });
});

describe('a form', () => {
  it('without its file is rejected for the missing file, not for its other fields', async () => {
    const form = new FormData();
    form.append('x', '1');
    const answer = await fetch(`${gateway.url}/api/v1/studio/audio/transcribe`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.caller.key}` },
      body: form,
    });
    const body = (await answer.json()) as StudioBody;
    expect([answer.status, body.error]).toEqual([400, 'INVALID_REQUEST']);
    expect(body.message).toBe('one of fileId, audioUrl and a multipart file is required');
    expect(body.details.map(({ path }) => path)).toEqual(['fileId', 'audioUrl', 'file']);
  });
});
