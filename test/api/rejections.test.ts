/**
 * The content of a 400 response: the field, the allowed values, the received value, and the likely
 * intended value. Bodies, queries and forms use one format, and never a library's own message.
 */
import { describe, expect, it } from 'vitest';
import { generateApiKey } from '../../identity/access.ts';
import { callerEndpoints } from '../harness/endpoints.ts';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { makeForm } from '../harness/uploads.ts';

const gateway = useGateway({ settled: 'last' });

const generate = 'studio/image/generate';
const prompt = 'a harbour';
const model = 'gpt-4o';
const messages = [{ role: 'user', content: 'hi' }];
const libraryText = /Invalid|expected|, received|Unrecognized|Too (?:big|small)|NaN|undefined|zod/;

/** Checks the first detail of an error, and that no message comes from a library. */
function expectDetail(body: StudioBody, path: string, message: string | RegExp): void {
  const expected = typeof message === 'string' ? message : expect.stringMatching(message);
  expect(body.details[0]).toEqual({ path, message: expected });
  expect(JSON.stringify(body)).not.toMatch(libraryText);
}

type Row = [path: string, body: object | null, field: string, message: string | RegExp];
const bodies: Row[] = [
  [
    'studio/image/upscale',
    { scaleFactor: 3 },
    'imageUrl',
    'is required: an http(s) URL, the id of an uploaded file, or a data URL of up to 1 MB',
  ],
  [generate, { prompt: 'ab' }, 'prompt', 'must be a string of 3–2000 characters (has 2)'],
  [
    generate,
    { prompt: '🌊'.repeat(2001) },
    'prompt',
    'must be a string of 3–2000 characters (has 2001)',
  ],
  [generate, { prompt: ['a', 'b'] }, 'prompt', /characters \(received an array of 2\)$/],
  [generate, { prompt: '   ' }, 'prompt', 'must not be blank (received "   ")'],
  [generate, { prompt, numImages: '2' }, 'numImages', 'must be an integer of 1–10 (received "2")'],
  [generate, { prompt, async: 'yes' }, 'async', 'must be true or false (received "yes")'],
  [
    generate,
    { prompt, outputFormat: 'jpg' },
    'outputFormat',
    'must be one of jpeg, png, webp (received "jpg"; did you mean jpeg?)',
  ],
  [
    generate,
    { prompt, aspectRatio: '16x9' },
    'aspectRatio',
    /^must be one of .*16:9.* for nano-banana \(received "16x9"; did you mean 16:9\?\)$/,
  ],
  [
    'studio/image/edit',
    { prompt, imageUrls: 'https://example.com/a.png?signature=abc' },
    'imageUrls',
    'must be an array of 1–10 items (received "https://example.com/a.png?…")',
  ],
  [
    'studio/voiceover/generate',
    { text: 'hi', title: 't', voice: 'raechel' },
    'voice',
    /\(received "raechel"; did you mean rachel\?\)$/,
  ],
  [
    'studio/dialogue/generate',
    { title: 't', inputs: [{ text: 'hi', voiceId: 'adam', speed: 2 }] },
    'inputs.0.speed',
    'unknown field; allowed: text, voiceId',
  ],
  [
    'studio/image/batch',
    { operation: 'upscale', imageURLs: [] },
    'imageURLs',
    /^unknown field; did you mean imageUrls\?; allowed: operation, /,
  ],
  [
    'studio/music/generate',
    { prompt, webhookUrl: 'http://a.example' },
    'webhookUrl',
    'must be an https URL',
  ],
  [
    'chat',
    { model, messages, temperature: 3 },
    'temperature',
    'must be a number of 0–2 (received 3)',
  ],
  ['chat', { model, messages, temprature: 1 }, 'temprature', /did you mean temperature\?/],
  [
    'chat',
    { model, messages: [] },
    'messages',
    'must contain at least one message (received an array of 0)',
  ],
  [
    'chat',
    { model, messages: [{ role: 'usr', content: 'hi' }] },
    'messages.0.role',
    'must be one of system, user, assistant (received "usr")',
  ],
  [
    'chat',
    {
      model,
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 5 } }] }],
    },
    'messages.0.content.0.image_url.url',
    /^must be a string of .* characters \(received 5\)/,
  ],
  [
    'chat',
    { model: 'claude-opus-5', messages: [{ role: 'system', content: 'be kind' }] },
    'messages',
    /^must contain a user message: this model does not answer system messages alone/,
  ],
];
const unknownJob = `studio/jobs/job_${'0'.repeat(32)}?foo=1`;
const queries: Row[] = [
  ['usage?limit=x', null, 'limit', 'must be an integer of 1–100 (received "x")'],
  ['usage?limit=101', null, 'limit', 'must be an integer of 1–100 (received "101")'],
  ['usage?limit=1&limit=2', null, 'limit', 'must not be repeated (received 2)'],
  [
    'usage?foo=1',
    null,
    'foo',
    'unknown query parameter; allowed: model, keyId, after, before, metadata, endUser, type, status, limit, cursor',
  ],
  [
    'usage?after=2026-11-22',
    null,
    'after',
    'must be a date and time with a time zone, such as 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+02:00 (received "2026-11-22")',
  ],
  [
    'studio/jobs?status=done',
    null,
    'status',
    'must be one of queued, in_progress, completed, failed, canceled (received "done")',
  ],
  [unknownJob, null, 'foo', 'unknown query parameter; allowed: wait'],
  [`${generate}?dryRun=true`, { prompt }, 'dryRun', 'this endpoint has no query parameters'],
];

it.each([...bodies, ...queries])(
  'a request to %s with %j gets an error for %s: %s',
  async (path, body, field, message) => {
    const answer = await gateway.call(`/api/v1/${path}`, body ? { body } : {});
    expect([answer.status, answer.body.error]).toEqual([400, 'INVALID_REQUEST']);
    expectDetail(answer.body, field, message);
    expect(answer.body.message).toBe(`${field}: ${answer.body.details[0]?.message}`);
  },
);

it('the OpenAPI document describes X-End-User at each endpoint that reads it', async () => {
  const spending = callerEndpoints.filter(
    ({ method, scope }) => method === 'POST' && /^(?:chat|bulk:|studio:(?!read))/.test(scope),
  );
  for (const { requestPath, request } of spending) {
    const [type, content] = Object.entries(request.content ?? {})[0] ?? [];
    const body = request.example ?? content?.example;
    if (type?.startsWith('multipart')) continue;
    const answer = await gateway.call(requestPath, { body, headers: { 'x-end-user': '*' } });
    // An id in the path is checked before the header.
    if (answer.status === 404) continue;
    const isRead = /X-End-User/.test(JSON.stringify(answer.body));
    const isDescribed = 'X-End-User' in (request.headers?.shape ?? {});
    expect({ requestPath, isRead }).toEqual({ requestPath, isRead: isDescribed });
  }
  expect(spending.length).toBeGreaterThan(40);
});

describe('a Studio request', () => {
  it.each([
    ['image/generate', { prompt, model: 'nanobanana-pro' }, 'model', 'nano-banana-pro'],
    [
      'image/upscale',
      { imageUrl: 'https://a.example', service: 'service-b' },
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
      const message = new RegExp(`^must be one of .*; did you mean ${right}\\?\\)$`);
      expectDetail(answer.body, path, message);
    },
  );

  it('gets each field once in the details, however many rules the field breaks', async () => {
    const body = { prompt, imageUrls: 'https://example.com/longer-than-ten', seed: -1, mask: 1 };
    const answer = await gateway.call('/api/v1/studio/image/edit', { body });
    expect(answer.body.details.map(({ path }) => path)).toEqual(['imageUrls', 'seed', 'mask']);
  });

  it.each(['gk_live_', 'gk_oper_', 'gk_user_', 'Bearer '])(
    'never gets a secret back: %s',
    async (prefix) => {
      const body = { text: 'hi', title: 't', voice: generateApiKey(prefix) };
      const answer = await gateway.call('/api/v1/studio/voiceover/generate', { body });
      expect(answer.status).toBe(400);
      expect(JSON.stringify(answer.body)).not.toContain(prefix);
      expect(answer.body.details[0]?.message).toMatch(/\(received a secret\)$/);
    },
  );

  it('never gets the credentials and the query of a URL back', async () => {
    const voice = `https://user:${'p'.repeat(200)}@example.com/voice?token=t`;
    const body = { text: 'hi', title: 't', voice };
    const answer = await gateway.call('/api/v1/studio/voiceover/generate', { body });
    const received = '(received "https://…@example.com/voice?…")';
    expect(answer.body.details[0]?.message).toContain(received);
  });

  it('as a form without its file is rejected for the missing file, not for its other fields', async () => {
    const answer = await gateway.call('/api/v1/studio/audio/transcribe', {
      body: makeForm({ x: '1' }),
    });
    const message = 'one of fileId, audioUrl and a multipart file is required';
    expect(answer).toMatchObject({ status: 400, body: { error: 'INVALID_REQUEST', message } });
    const paths = answer.body.details.map(({ path }) => path);
    expect(paths).toEqual(['fileId', 'audioUrl', 'file']);
  });
});
