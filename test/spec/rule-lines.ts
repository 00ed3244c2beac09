/** Spec §5 (authentication), §7 (errors) and §8 (limits), line by line. */
import { knownProviders } from '../../providers/registry.ts';
import { expect } from 'vitest';
import { loadConfig } from '../../platform/config.ts';
import {
  answers,
  carriesHeaders,
  done,
  endpoints,
  endpointsOf,
  get,
  line,
  needsCredits,
  needsKey,
  needsRest,
  needsRight,
  needsWindow,
  post,
  refuses,
  remove,
  send,
  takes,
  type Bench,
  type Check,
  type Request,
} from './bench.ts';
import { foreignKeyIsUnknown, tenKeys, usageOfTwenty } from './account-lines.ts';

const studio = endpointsOf('/studio');
const newKey = (body: object) => post('/api-keys', { name: 'ci', ...body });
const image = (body: object) =>
  post('/studio/image/generate', { prompt: 'a pier at dawn', ...body });
const text = (length: number): string => 'x'.repeat(length);

/** The key in no other place and no other spelling. */
const onlyBearer: Check = async (bench) => {
  const { gateway } = bench;
  const { key } = await gateway.newCaller({ credits: 1 });
  expect(key).toMatch(/^gk_live_/);
  const good = await gateway.call('/api/v1/usage', { key });
  expect(good.status).toBe(200);
  for (const authorization of [key, `Basic ${key}`, `bearer  ${key}`, `Bearer ${key}x`, 'Bearer']) {
    const { status, body } = await gateway.call('/api/v1/usage', {
      key: null,
      headers: { authorization },
    });
    expect([authorization, status, body]).toEqual([authorization, 401, { error: 'Unauthorized' }]);
  }
  const elsewhere = await gateway.call(`/api/v1/usage?api_key=${key}`, {
    key: null,
    headers: { 'x-api-key': key },
  });
  expect([elsewhere.status, elsewhere.body]).toEqual([401, { error: 'Unauthorized' }]);
};

const keyFromTheApi: Check = async (bench) => {
  const { gateway } = bench;
  const caller = await gateway.newCaller({ credits: 100 });
  const made = await send(bench, newKey({}), caller);
  const key = String(made.body['key']);
  const answer = await gateway.call('/api/v1/chat', {
    key,
    body: { model: 'gpt-4o', messages: [{ role: 'user', content: 'x' }] },
  });
  expect(answer.status).toBe(200);
  const listed = await send(bench, get('/api-keys'), caller);
  expect(JSON.stringify(listed.body)).not.toContain(key);
};

const failedJobIsReleased: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 100 });
  const { status, body } = await send(
    bench,
    image({ prompt: 'a pier [[fail-result:500]]' }),
    caller,
  );
  expect(status).toBe(500);
  const { body: usage } = await send(bench, get('/usage'), caller);
  expect(usage['balance']).toEqual({ available: 100, reserved: 0, total: 100 });
  const job = await bench.gateway.call(`/api/v1/studio/jobs/${String(body['jobId'])}`, {
    key: caller.key,
  });
  expect(job.body.data.billing).toMatchObject({ state: 'released', charged: 0 });
};

const sixtyAMinute: Check = async (bench) => {
  expect(
    loadConfig(knownProviders, { ...bench.gateway.env, RATE_LIMIT_PER_MINUTE: '' })
      .RATE_LIMIT_PER_MINUTE,
  ).toBe(60);
  // A minute may turn while they are sent: then both minutes together let more through.
  for (let tries = 0; tries < 3; tries += 1) {
    const caller = await bench.gateway.newCaller({ credits: 1 });
    const all = await Promise.all(
      Array.from({ length: 70 }, () => send(bench, get('/usage?limit=1'), caller)),
    );
    const minutes = new Set(all.map(({ headers }) => headers.get('x-ratelimit-reset')));
    if (minutes.size > 1) continue;
    expect(all.filter(({ status }) => status === 200)).toHaveLength(60);
    expect(all.filter(({ status }) => status === 429)).toHaveLength(10);
    const left = all.map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
    expect(Math.min(...left)).toBe(0);
    // Another key of the same user has a minute of its own.
    const other = await bench.gateway.newCaller({ credits: 1 });
    expect((await send(bench, get('/usage'), other)).status).toBe(200);
    return;
  }
  throw new Error('the minute turned three times');
};

const bodyIsError = (request: Request, status: number): Check =>
  answers(request, status, { error: expect.any(String) });

/** §5. */
export const authenticationLines = [
  line(
    '5',
    'Every endpoint requires `Authorization: Bearer <API_KEY>`, where the key is a secret with a fixed service-specific prefix',
    needsKey(...endpoints),
    onlyBearer,
  ),
  line('5', 'or via POST /api/v1/api-keys', keyFromTheApi),
  line('5', 'A user may hold at most 10 keys', tenKeys),
  line('5', 'The full key is returned once only', keyFromTheApi),
  line('5', 'Missing or invalid key: 401 with `{error: "Unauthorized"}`', needsKey(...endpoints)),
  line('5', 'Valid key not allowed for the resource: 403', needsRight(...endpoints)),
];

/** §7. */
export const errorLines = [
  line(
    '7',
    'Body is the Error object (`error`, optional `message`) unless noted',
    bodyIsError(image({ prompt: 'a' }), 400),
    bodyIsError(remove('/api-keys/none'), 404),
    bodyIsError(post('/nothing', {}), 404),
    bodyIsError(get('/usage?limit=0'), 400),
  ),
  line(
    '7',
    '| 400 | Invalid request body, unknown model (chat); invalid name/expiry or key quota reached (key creation) |',
    ...endpoints
      .filter(({ method, path }) => method === 'POST' && !path.endsWith('/chat/none'))
      .map((request) => bodyIsError({ ...request, body: { nonsense: true } }, 400)),
    ...['/chat', '/chat/completions'].map((path) =>
      answers(post(path, { model: 'nope', messages: [{ role: 'user', content: 'x' }] }), 400, {
        error: 'UNKNOWN_MODEL',
      }),
    ),
    refuses(newKey({ name: 'x'.repeat(65) }), 'name'),
    refuses(newKey({ expiresAt: 1 }), 'expiresAt'),
    tenKeys,
  ),
  line(
    '7',
    '| 401 | Missing or invalid API key | `error`: `Unauthorized` |',
    needsKey(...endpoints),
  ),
  line(
    '7',
    '| 402 | Insufficient credits | Studio: `error` code `INSUFFICIENT_CREDITS` |',
    needsCredits(...studio, ...endpointsOf('/chat')),
  ),
  line('7', '| 403 | Key valid but not allowed for this resource |', needsRight(...endpoints)),
  line(
    '7',
    '| 404 | Unknown model id | Envelope `{type: "error", error: {type: "not_found_error", message}}` |',
    answers(get('/models/unknown'), 404, {
      type: 'error',
      error: { type: 'not_found_error', message: expect.any(String) },
    }),
  ),
  line('7', '| 404 | Key not found or not owned by caller | Error object |', foreignKeyIsUnknown),
  line(
    '7',
    '| 429 | Rate limit exceeded (60 req/min per key) | `error`: `Rate limit exceeded. Please slow down.`; header `Retry-After` |',
    needsRest(...endpoints),
    sixtyAMinute,
  ),
  line(
    '7',
    '| 429 | Six-hour usage window exhausted (Studio) | `error` code `WINDOW_EXHAUSTED`; includes a `resetAt` timestamp |',
    needsWindow(...studio),
  ),
  line('7', 'When a Studio job fails, its credit reservation is released', failedJobIsReleased),
];

/** §7, told while the database misses what every endpoint needs: see the test. */
export const brokenLine = line(
  '7',
  '| 500 | Internal server error | `error`: `Internal server error` |',
  ...endpoints.map((request): Check => async (bench) => {
    const { status, body } = await send(bench, request, bench.gateway.caller);
    expect({ path: request.path, status, body }).toMatchObject({
      path: request.path,
      status: 500,
      body: { error: 'Internal server error' },
    });
    // Nothing of the cause is shown.
    expect(JSON.stringify(body)).not.toMatch(/api_key|relation|sql/i);
  }),
);

const voiceover = (body: object) =>
  post('/studio/voiceover/generate', { text: 'Welcome.', title: 'Greeting', ...body });
const dialogue = (body: object) =>
  post('/studio/dialogue/generate', {
    inputs: [{ text: 'Hi.', voiceId: 'adam' }],
    title: 'A',
    ...body,
  });
const edit = (body: object) =>
  post('/studio/image/edit', (bench) => ({
    prompt: 'paint it blue',
    imageUrls: [bench.picture],
    ...body,
  }));
const pictures = (count: number, extra: object) => (bench: Bench) => ({
  imageUrls: Array.from({ length: count }, () => bench.picture),
  ...extra,
});

async function transcribed(
  bench: Parameters<Check>[0],
  sizeBytes: number,
): Promise<{ status: number; body: unknown }> {
  const file = new Uint8Array(sizeBytes);
  file.set(bench.speech);
  const form = new FormData();
  form.append('file', new Blob([file]), 'talk.mp3');
  const answer = await fetch(`${bench.gateway.url}/api/v1/studio/audio/transcribe`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bench.gateway.caller.key}` },
    body: form,
  });
  return { status: answer.status, body: await answer.json() };
}

/** 4.5 MB, in either reading of the unit, and not a byte more than the larger one. */
const uploadsOfTranscription: Check = async (bench) => {
  const decimal = await transcribed(bench, 4_500_000);
  expect(decimal).toMatchObject({ status: 200, body: { success: true } });
  const binary = await transcribed(bench, 4.5 * 1024 * 1024);
  expect(binary).toMatchObject({ status: 200, body: { success: true } });
  const larger = await transcribed(bench, 4.5 * 1024 * 1024 + 1);
  expect(larger).toMatchObject({ status: 413, body: { error: 'FILE_TOO_LARGE' } });
};

let uploaded: Promise<void> | undefined;

/** The same, once for all lines that say so. */
export const uploadOfTranscription: Check = async (bench) =>
  (uploaded ??= uploadsOfTranscription(bench));

/** 1–10 items. */
function oneToTen(path: string, fixed: object): Check[] {
  const ask = (count: number) => post(path, pictures(count, fixed));
  return [takes(ask(1), ask(10)), refuses(ask(0), 'imageUrls'), refuses(ask(11), 'imageUrls')];
}

/** §8. */
export const limitLines = [
  line(
    '8',
    '| Request rate | 60 requests per minute per key | All endpoints; 429 with `Retry-After` |',
    sixtyAMinute,
    needsRest(...endpoints),
  ),
  line(
    '8',
    '| Rate headers | `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` (Unix seconds), `X-Request-Id` | Documented on model list and upload-url responses |',
    carriesHeaders(get('/models'), post('/storage/upload-url')),
    // Nothing says that they are missing elsewhere.
    carriesHeaders(get('/usage'), ...endpointsOf('/chat')),
  ),
  line('8', '| API keys | 10 per user | Key creation |', tenKeys),
  line(
    '8',
    '| Key name | max 64 characters | Key creation |',
    takes(newKey({ name: text(64) })),
    refuses(newKey({ name: text(65) }), 'name'),
  ),
  line(
    '8',
    '| Key expiry | Unix ms, in the future | Key creation |',
    takes(newKey({ expiresAt: Date.now() + 86_400_000 })),
    refuses(newKey({ expiresAt: Date.now() - 1 }), 'expiresAt'),
  ),
  line('8', '| Usage list | `limit` default 20 | GET /usage |', usageOfTwenty),
  line(
    '8',
    '| Image prompt / edit prompt | 3–2000 characters | Image generate, edit |',
    ...[image, edit].flatMap((ask) => [
      takes(
        ask({ prompt: text(3) }),
        ask({ prompt: text(2000) }),
        ask({ prompt: '🌊'.repeat(2000) }),
      ),
      refuses(ask({ prompt: text(2) }), 'prompt'),
      refuses(ask({ prompt: '🌊🌊' }), 'prompt'),
      refuses(ask({ prompt: text(2001) }), 'prompt'),
    ]),
  ),
  line(
    '8',
    '| numImages | 1–10 (varies by model) | Image generate |',
    takes(image({ numImages: 1 }), image({ numImages: 10 })),
    refuses(image({ numImages: 0 }), 'numImages'),
    refuses(image({ numImages: 11 }), 'numImages'),
    takes(image({ model: 'alpha-imagen', numImages: 4 })),
    refuses(image({ model: 'alpha-imagen', numImages: 5 }), 'numImages'),
  ),
  line(
    '8',
    '| imageUrls | 1–10 items | Image edit, image batch |',
    ...oneToTen('/studio/image/edit', { prompt: 'paint it' }),
    ...oneToTen('/studio/image/batch', { operation: 'remove-background' }),
  ),
  line(
    '8',
    '| Dimensions | 1024–4096 px (`seedream`); custom imageSize multiples of 16 | Image generate |',
    takes(...[1024, 4096].map((edge) => image({ model: 'seedream', width: edge, height: edge }))),
    ...[1023, 4097].flatMap((edge) => [
      refuses(image({ model: 'seedream', width: edge, height: 2048 }), 'width'),
      refuses(image({ model: 'seedream', width: 2048, height: edge }), 'height'),
    ]),
    takes(image({ model: 'alpha-image-2', imageSize: { width: 1008, height: 1040 } })),
    refuses(
      image({ model: 'alpha-image-2', imageSize: { width: 1010, height: 1040 } }),
      'imageSize',
    ),
  ),
  line(
    '8',
    '| seed | 0–2147483647 | Image generate |',
    takes(image({ seed: 0 }), image({ seed: 2_147_483_647 })),
    refuses(image({ seed: -1 }), 'seed'),
    refuses(image({ seed: 2_147_483_648 }), 'seed'),
  ),
  line(
    '8',
    '| Voiceover text | 1–5000 characters | Voiceover |',
    takes(voiceover({ text: 'a' }), voiceover({ text: text(5000) })),
    refuses(voiceover({ text: '' }), 'text'),
    refuses(voiceover({ text: text(5001) }), 'text'),
  ),
  line(
    '8',
    '| Title | 1–255 characters | Voiceover, dialogue |',
    ...[voiceover, dialogue].flatMap((ask) => [
      takes(ask({ title: 'a' }), ask({ title: text(255) }), ask({ title: '🌊'.repeat(255) })),
      refuses(ask({ title: '' }), 'title'),
      refuses(ask({ title: text(256) }), 'title'),
    ]),
  ),
  line(
    '8',
    '| stability, similarityBoost | 0–1, default 0.5 | Voiceover, dialogue |',
    ...[voiceover, dialogue].flatMap((ask) => [
      answers(ask({}), 200, done({ metadata: { stability: 0.5, similarityBoost: 0.5 } })),
      answers(ask({ stability: 0, similarityBoost: 1 }), 200, {
        data: { metadata: { stability: 0, similarityBoost: 1 } },
      }),
      refuses(ask({ stability: 1.01 }), 'stability'),
      refuses(ask({ stability: -0.01 }), 'stability'),
      refuses(ask({ similarityBoost: 1.01 }), 'similarityBoost'),
      refuses(ask({ similarityBoost: -0.01 }), 'similarityBoost'),
    ]),
  ),
  line('8', '| Music duration | default 30 s | Music generate |', async (bench) => {
    const song = post('/studio/music/generate', { prompt: 'a song', mode: 'audio-only' });
    const { body } = await send(bench, song);
    const { duration } = body['data'] as { duration: number };
    expect(Math.abs(duration - 30_000)).toBeLessThan(500);
  }),
  line('8', '| Transcription upload | max 4.5 MB | Multipart transcribe |', uploadOfTranscription),
  line(
    '8',
    '| Usage window | 6 hours | Studio; exhausting it yields `WINDOW_EXHAUSTED` |',
    needsWindow(...endpointsOf('/studio/image/generate', '/studio/sfx')),
    async (bench) => {
      // Chat is not Studio.
      const caller = await bench.gateway.newCaller({ credits: 10, windowCredits: 0.000_001 });
      for (const request of endpointsOf('/chat')) {
        expect((await send(bench, request, caller)).status).toBe(200);
      }
    },
  ),
];
