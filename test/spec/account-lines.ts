/** Spec §4.3 to §4.6 (keys, usage, storage, the common envelope), line by line. */
import { expect } from 'vitest';
import { download } from '../harness/media.ts';
import { uploadFile } from '../harness/uploads.ts';
import {
  answers,
  carriesHeaders,
  done,
  selectEndpoints,
  expectAnswer,
  field,
  get,
  defineLines,
  needsAccess,
  needsCredits,
  needsWindow,
  post,
  rejects,
  remove,
  send,
  type Ask,
  type Check,
  type Loose,
} from './bench.ts';

const newKey: Ask = (body) => post('/api-keys', { name: 'ci', ...body });
const chat = post('/chat', { model: 'gpt-4o', messages: [{ role: 'user', content: 'x' }] });
const text = (length: number): string => 'x'.repeat(length);
const inAnHour = (): number => Date.now() + 3_600_000;
const instantMs = expect.toSatisfy(
  (value: unknown) => Number.isSafeInteger(value) && Math.abs(Number(value) - Date.now()) < 600_000,
) as unknown;

/** The list has the keys of the user, without their secrets. */
export const keysOfTheUser: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 1 });
  const expiresAt = inAnHour();
  const made = await send(bench, newKey({ expiresAt }), caller);
  const { status, body } = await send(bench, get('/api-keys'), caller);
  expect({ status, fields: Object.keys(body) }).toEqual({ status: 200, fields: ['keys'] });
  const keys = body['keys'] as Loose[];
  const byId = Object.fromEntries(keys.map((key) => [key['keyId'], key]));
  expect(byId).toEqual({
    [caller.keyId]: expect.objectContaining({ expiresAt: null }),
    [String(made.body['keyId'])]: expect.objectContaining({
      keyPrefix: expect.any(String),
      name: 'ci',
      createdAt: instantMs,
      expiresAt,
      lastUsedAt: null,
    }),
  });
  // The secret itself is never shown again.
  expect(JSON.stringify(body)).not.toContain(String(made.body['key']));
};

/** A new key is returned, and it works. */
export const keyIsMade: Check = async (bench) => {
  const request = newKey({ expiresAt: inAnHour() });
  const { body } = await expectAnswer(bench, request, undefined, 200, {
    key: expect.stringMatching(/^gk_live_\w+$/),
    keyId: expect.any(String),
    keyPrefix: expect.any(String),
    name: 'ci',
    createdAt: instantMs,
  });
  expect(String(body['key']).startsWith(String(body['keyPrefix']))).toBe(true);
  const works = await bench.gateway.call('/api/v1/usage', { key: String(body['key']) });
  expect(works.status).toBe(200);
};

/** A user can have ten keys; the eleventh is rejected. */
export const tenKeys: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 1 });
  const made = await Promise.all(Array.from({ length: 10 }, () => send(bench, newKey({}), caller)));
  // The caller has one key already.
  expect(made.map(({ status }) => status).toSorted()).toEqual([...Array(9).fill(200), 400]);
  const rejected = made.find(({ status }) => status === 400);
  expect(rejected?.body).toMatchObject({ error: 'KEY_QUOTA_REACHED' });
};

const keyIsRevoked: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 1 });
  const made = await send(bench, newKey({}), caller);
  const { keyId, key } = made.body as { keyId: string; key: string };
  const { status, body } = await send(bench, remove(`/api-keys/${keyId}`), caller);
  expect({ status, body }).toEqual({ status: 200, body: { success: true, keyId } });
  const after = await bench.gateway.call('/api/v1/usage', { key });
  expect([after.status, after.body]).toEqual([401, { error: 'Unauthorized' }]);
};

/** A key that does not exist, and one of another organization: 404 with the error object. */
export const foreignKeyIsUnknown: Check = async (bench) => {
  const stranger = await bench.gateway.newCaller({ credits: 1 });
  for (const keyId of [stranger.keyId, 'key_00000000000000000000000000000000', 'nothing']) {
    const unknown = { error: 'NOT_FOUND', message: expect.any(String) };
    await expectAnswer(bench, remove(`/api-keys/${keyId}`), undefined, 404, unknown);
  }
  const still = await bench.gateway.call('/api/v1/usage', { key: stranger.key });
  expect(still.status).toBe(200);
};

/** Of 21 chats, the list has 20 unless the request has a limit. */
export const usageOfTwenty: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 10_000 });
  await Promise.all(Array.from({ length: 21 }, () => send(bench, chat, caller)));
  const count = async (query: string): Promise<number> => {
    const { body } = await send(bench, get(`/usage${query}`), caller);
    return (body['usage'] as unknown[]).length;
  };
  await expect.poll(() => count('?limit=50')).toBe(21);
  expect(await count('')).toBe(20);
  expect(await count('?limit=3')).toBe(3);
};

const usageAfter: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 100 });
  await send(bench, chat, caller);
  const records = async (after: string): Promise<Loose[]> => {
    const { status, body } = await send(bench, get(`/usage?after=${after}`), caller);
    expect(status).toBe(200);
    return body['usage'] as Loose[];
  };
  await expect.poll(() => records('2020-01-01T00:00:00Z')).toHaveLength(1);
  const [record] = await records('2020-01-01T00:00:00%2B02:00');
  const at = String(record?.['createdAt']);
  const before = new Date(Date.parse(at) - 1).toISOString();
  expect(await records(before)).toHaveLength(1);
  expect(await records(at)).toHaveLength(0);
};

const upload: Check = async (bench) => {
  const { key } = await bench.gateway.newCaller({ credits: 1 });
  const bytes = await download(bench.picture);
  const { publicUrl } = await uploadFile(bench.gateway, bytes, { contentType: 'image/png' }, key);
  expect(await download(publicUrl)).toEqual(bytes);
};

const batchOfUploads: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 1000 });
  const bytes = await download(bench.picture);
  const [one, other] = [
    await uploadFile(bench.gateway, bytes, {}, caller.key),
    await uploadFile(bench.gateway, bytes, {}, caller.key),
  ];
  const imageUrls = [one.publicUrl, other.url];
  const batch = post('/studio/image/batch', { operation: 'remove-background', imageUrls });
  await expectAnswer(bench, batch, caller, 200, done({ total: 2, successful: 2, failed: 0 }));
};

/** A job that fails returns 500, and its credits are released. */
export const failedJobIsReleased: Check = async (bench) => {
  const caller = await bench.gateway.newCaller({ credits: 100 });
  const failing = post('/studio/image/generate', { prompt: 'a pier [[fail-result:500]]' });
  const { body } = await expectAnswer(bench, failing, caller, 500, { error: 'PROVIDER_ERROR' });
  const { body: usage } = await send(bench, get('/usage'), caller);
  expect(usage['balance']).toEqual({ available: 100, reserved: 0, total: 100 });
  const job = await send(bench, get(`/studio/jobs/${String(body['jobId'])}`), caller);
  expect(job.body['data']).toMatchObject({ billing: { state: 'released', charged: 0 } });
};

/** The limits of the name and the expiry of a key. */
export const keyNames = field(
  newKey,
  'name',
  ['x', text(64), '🔑'.repeat(64)],
  [undefined, 7, '', text(65), '🔑'.repeat(65)],
);
/** Milliseconds; a past time, seconds, a fraction and a text are rejected. */
export const keyExpiries = field(
  newKey,
  'expiresAt',
  [inAnHour(), undefined],
  [
    Date.now() - 1000,
    Math.floor(inAnHour() / 1000),
    inAnHour() + 0.5,
    new Date(inAnHour()).toISOString(),
    0,
  ],
);

const studio = selectEndpoints('/studio');
const selectStudio = (path: string) => studio.filter((request) => request.path.endsWith(path));

/** §4.3, §4.4, §4.5, §4.6. */
export const accountLines = [
  ...defineLines('4.3', {
    '**GET /api/v1/api-keys** — 200: `{keys: [ApiKeyMeta]}` for the authenticated user':
      keysOfTheUser,
    '**POST /api/v1/api-keys** — body:': keyIsMade,
    '`name` (string, required, max 64 characters)': keyNames,
    '`expiresAt` (integer int64, optional, Unix ms, must be in the future)': keyExpiries,
    '200: `key` (string, required, shown once), `keyId` (string, required), `keyPrefix` (string), `name` (string), `createdAt` (integer)':
      [keyIsMade, keysOfTheUser],
    '400: invalid name or expiry, or key quota reached (max 10 keys per user)': [
      ...keyNames,
      ...keyExpiries,
      tenKeys,
    ],
    '**DELETE /api/v1/api-keys/{keyId}** — revoke. 200: `{success: true, keyId: <string>}`':
      keyIsRevoked,
    '404: key not found or not owned by the caller': foreignKeyIsUnknown,
  }),
  ...defineLines('4.4', {
    '`after` (string, ISO 8601 date-time; only usage after it)': [
      usageAfter,
      rejects(get('/usage?after=yesterday'), 'after'),
    ],
    '`limit` (integer, default 20)': [
      usageOfTwenty,
      rejects(get('/usage?limit=many'), 'limit'),
      rejects(get('/usage?limit=1.5'), 'limit'),
    ],
    '**GET /api/v1/usage** — query:': answers(get('/usage'), 200, { credits: 10_000, usage: [] }),
    '200: JSON object with credit balance and recent usage records': answers(get('/usage'), 200, {
      balance: { available: 10_000, reserved: 0, total: 10_000 },
      usage: [],
    }),
  }),
  ...defineLines('4.5', {
    '**POST /api/v1/storage/upload-url** — returns a short-lived signed URL for uploading a file directly to blob storage plus a public URL to read it back':
      upload,
    '200: JSON object; response headers as for the model list (`X-RateLimit-*`, `X-Request-Id`)': [
      carriesHeaders(post('/storage/upload-url')),
      answers(post('/storage/upload-url'), 200, {
        uploadUrl: expect.any(String),
        publicUrl: expect.any(String),
      }),
    ],
    'Local files for batch image work are uploaded this way first and the returned file URLs passed on':
      batchOfUploads,
  }),
  ...defineLines('4.6', {
    'Successful Studio calls return `{success: true, data: <object>, credits: {used, cost, remaining}}`':
      studio
        // The response of music/plan is not wrapped, as its own line says.
        .filter(({ path }) => !path.endsWith('/music/plan'))
        .map((request): Check => async (bench) => {
          const { status, body } = await send(bench, request);
          expect([200, 202], JSON.stringify(body)).toContain(status);
          expect(body).toMatchObject(done({}));
          const { used, cost, remaining } = body['credits'] as Record<string, number>;
          expect(cost).toBeGreaterThan(0);
          expect(used).toBe(status === 202 ? 0 : cost);
          expect(remaining).toBeCloseTo(10_000 - (cost ?? 0), 6);
        }),
    'Each Studio endpoint can return 401, 403, 429, 500': [
      ...needsAccess(...studio),
      failedJobIsReleased,
    ],
    'additionally 402 `INSUFFICIENT_CREDITS`': needsCredits(...studio),
    'and 429 `WINDOW_EXHAUSTED`': needsWindow(...selectStudio('/image/generate')),
    '(see section 7)': needsWindow(...studio),
  }),
];
