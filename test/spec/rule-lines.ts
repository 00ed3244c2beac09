/** Spec §5 (authentication), §7 (errors) and §8 (limits), line by line. */
import { expect } from 'vitest';
import { loadConfig } from '../../platform/config.ts';
import { knownProviders } from '../../process/run-process.ts';
import {
  answers,
  carriesHeaders,
  endpoints,
  selectEndpoints,
  expectAnswer,
  get,
  defineLines,
  needsCredits,
  needsKey,
  needsRate,
  needsRight,
  needsWindow,
  post,
  remove,
  send,
  type Check,
  type Request,
} from './bench.ts';
import {
  failedJobIsReleased,
  foreignKeyIsUnknown,
  keyExpiries,
  keyIsMade,
  keyNames,
  keysOfTheUser,
  tenKeys,
  usageOfTwenty,
} from './account-lines.ts';
import { unknownModelIsNotFound } from './chat-lines.ts';
import { imageLimits } from './image-lines.ts';
import { soundLimits } from './sound-and-film-lines.ts';

const studio = selectEndpoints('/studio');
/** The key counts in no other place and no other spelling. */
const onlyBearer: Check = async (bench) => {
  const { gateway } = bench;
  const { key } = await gateway.newCaller({ credits: 1 });
  expect(key).toMatch(/^gk_live_/);
  const good = await gateway.call('/api/v1/usage', { key });
  expect(good.status).toBe(200);
  const wrong = [key, `Basic ${key}`, `Bearer ${key}x`, 'Bearer'];
  const requests: { query: string; headers: Record<string, string> }[] = [
    ...wrong.map((authorization) => ({ query: '', headers: { authorization } })),
    { query: `?api_key=${key}`, headers: { 'x-api-key': key } },
  ];
  for (const { query, headers } of requests) {
    const { status, body } = await gateway.call(`/api/v1/usage${query}`, { key: null, headers });
    expect([headers, status, body]).toEqual([headers, 401, { error: 'Unauthorized' }]);
  }
};

/** The gateway allows 60 requests a minute unless it is configured otherwise. */
const sixtyAMinute: Check = async ({ gateway }) => {
  const env = { ...gateway.env, RATE_LIMIT_PER_MINUTE: '' };
  expect(loadConfig(knownProviders, env).RATE_LIMIT_PER_MINUTE).toBe(60);
};

const bodyIsError = (request: Request, status: number): Check =>
  answers(request, status, { error: expect.any(String) });

/** §5. */
export const authenticationLines = defineLines('5', {
  'Every endpoint requires `Authorization: Bearer <API_KEY>`, where the key is a secret with a fixed service-specific prefix':
    [needsKey(...endpoints), onlyBearer],
  'or via POST /api/v1/api-keys': keyIsMade,
  'A user may hold at most 10 keys': tenKeys,
  'The full key is returned once only': keysOfTheUser,
  'Missing or invalid key: 401 with `{error: "Unauthorized"}`': needsKey(...endpoints),
  'Valid key not allowed for the resource: 403': needsRight(...endpoints),
});

/** §7. */
export const errorLines = defineLines('7', {
  'Body is the Error object (`error`, optional `message`) unless noted': [
    bodyIsError(remove('/api-keys/none'), 404),
    bodyIsError(post('/nothing', {}), 404),
    bodyIsError(get('/usage?limit=0'), 400),
  ],
  '| 400 | Invalid request body, unknown model (chat); invalid name/expiry or key quota reached (key creation) |':
    [
      ...endpoints
        .filter(({ method }) => method === 'POST')
        .map((request) => bodyIsError({ ...request, body: { nonsense: true } }, 400)),
      ...['/chat', '/chat/completions'].map((path) =>
        answers(post(path, { model: 'nope', messages: [{ role: 'user', content: 'x' }] }), 400, {
          error: 'UNKNOWN_MODEL',
        }),
      ),
      ...keyNames,
      ...keyExpiries,
      tenKeys,
    ],
  '| 401 | Missing or invalid API key | `error`: `Unauthorized` |': needsKey(...endpoints),
  '| 402 | Insufficient credits | Studio: `error` code `INSUFFICIENT_CREDITS` |': needsCredits(
    ...studio,
    ...selectEndpoints('/chat'),
  ),
  '| 403 | Key valid but not allowed for this resource |': needsRight(...endpoints),
  '| 404 | Unknown model id | Envelope `{type: "error", error: {type: "not_found_error", message}}` |':
    unknownModelIsNotFound,
  '| 404 | Key not found or not owned by caller | Error object |': foreignKeyIsUnknown,
  '| 429 | Rate limit exceeded (60 req/min per key) | `error`: `Rate limit exceeded. Please slow down.`; header `Retry-After` |':
    [needsRate(...endpoints), sixtyAMinute],
  '| 429 | Six-hour usage window exhausted (Studio) | `error` code `WINDOW_EXHAUSTED`; includes a `resetAt` timestamp |':
    needsWindow(...studio),
  'When a Studio job fails, its credit reservation is released': failedJobIsReleased,
});

/** §7, checked while the database lacks a table that every endpoint needs. */
export const brokenLines = defineLines('7', {
  '| 500 | Internal server error | `error`: `Internal server error` |': endpoints.map(
    (request): Check =>
      async (bench) => {
        const error = 'Internal server error';
        const answer = await expectAnswer(bench, request, bench.gateway.caller, 500, { error });
        // The response does not show the cause.
        expect(JSON.stringify(answer.body)).not.toMatch(/api_key|relation|sql/i);
      },
  ),
});

/** §8. */
export const limitLines = defineLines('8', {
  '| Request rate | 60 requests per minute per key | All endpoints; 429 with `Retry-After` |': [
    sixtyAMinute,
    needsRate(...endpoints),
  ],
  '| Rate headers | `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` (Unix seconds), `X-Request-Id` | Documented on model list and upload-url responses |':
    [
      carriesHeaders(get('/models'), post('/storage/upload-url')),
      // Nothing says that they are missing elsewhere.
      carriesHeaders(get('/usage'), ...selectEndpoints('/chat')),
    ],
  '| API keys | 10 per user | Key creation |': tenKeys,
  '| Key name | max 64 characters | Key creation |': keyNames,
  '| Key expiry | Unix ms, in the future | Key creation |': keyExpiries,
  '| Usage list | `limit` default 20 | GET /usage |': usageOfTwenty,
  ...imageLimits,
  ...soundLimits,
  '| Usage window | 6 hours | Studio; exhausting it yields `WINDOW_EXHAUSTED` |': [
    needsWindow(...selectEndpoints('/studio/image/generate', '/studio/sfx')),
    async (bench) => {
      // Chat is not Studio.
      const caller = await bench.gateway.newCaller({ credits: 10, windowCredits: 0.000_001 });
      for (const request of selectEndpoints('/chat')) {
        expect((await send(bench, request, caller)).status).toBe(200);
      }
    },
  ],
});
