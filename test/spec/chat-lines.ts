/** Spec §4, §4.1 and §4.2, line by line. */
import { expect } from 'vitest';
import {
  aNumber,
  answers,
  carriesHeaders,
  endpoints,
  selectEndpoints,
  get,
  defineLines,
  needsAccess,
  needsCredits,
  needsKey,
  needsRate,
  post,
  rejects,
  remove,
  send,
  type Ask,
  type Check,
  type Loose,
  type Request,
} from './bench.ts';

const messages = [{ role: 'user', content: 'what is this' }];
const withImage = [
  { type: 'text', text: 'what is this' },
  { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
];
const chat: Ask = (body) => post('/chat', { model: 'gpt-4o', messages, ...body });
const completions: Ask = (body) =>
  post('/chat/completions', { model: 'gpt-4o', messages, ...body });

const chatResponse = {
  id: expect.any(String),
  model: 'gpt-4o',
  content: 'You said: what is this',
  usage: { inputTokens: aNumber, outputTokens: aNumber, totalTokens: aNumber },
  creditsConsumed: aNumber,
};

/** The response has this content type. */
function isOfType(request: Request, type: string): Check {
  return async (bench) => {
    const { status, headers } = await send(bench, request);
    expect([status, headers.get('content-type')?.split(';')[0]]).toEqual([200, type]);
  };
}

const everyModel: Check = async (bench) => {
  const { body } = await send(bench, get('/models'));
  const ids = (body['data'] as { id: string }[]).map(({ id }) => id);
  expect(ids.length).toBeGreaterThanOrEqual(100);
  // Any id of the list may be named in a chat; a twelfth of them is tested.
  for (const model of ids.filter((_, index) => index % 12 === 0)) {
    const answer = await send(bench, post('/chat', { model, messages, max_tokens: 50 }));
    expect([model, answer.status]).toEqual([model, 200]);
  }
};

const seconds = (value: unknown): boolean => Number.isInteger(value) && Number(value) < 1e10;

const entry = {
  id: 'gpt-4o',
  object: 'model',
  created: expect.toSatisfy(seconds),
  owned_by: expect.any(String),
  type: 'model',
  display_name: expect.any(String),
  created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]+Z$/),
};

function everyEntry(...fields: string[]): Check {
  return async (bench) => {
    const { body } = await send(bench, get('/models'));
    for (const one of body['data'] as Loose[]) {
      expect(fields.filter((field) => one[field] === undefined)).toEqual([]);
    }
  };
}

const legacyEntries: Check = async (bench) => {
  const { body } = await send(bench, get('/models'));
  const { models, data } = body as { models: Loose[]; data: Loose[] };
  expect(models.map((model) => model['id'])).toEqual(data.map((model) => model['id']));
  for (const model of models) {
    expect(model).toMatchObject({
      name: expect.any(String),
      cost: { input: aNumber, output: aNumber },
      limit: { context: aNumber, output: aNumber },
    });
    for (const flag of ['reasoning', 'supportsImages', 'supportsVideo', 'supportsAudio']) {
      expect([undefined, true]).toContain(model[flag]);
    }
  }
};

const chatErrors = (ask: Ask, requests: Request[]): Check[] => [
  rejects(ask({ temperature: 'hot' }), 'temperature'),
  answers(ask({ model: 'no-such-model' }), 400, { error: 'UNKNOWN_MODEL' }),
  ...needsAccess(...requests),
  needsCredits(...requests),
  answers(ask({ messages: [{ role: 'user', content: '[[fail:500]]' }] }), 500, {
    error: 'PROVIDER_ERROR',
  }),
];

/** An unknown model is a 404 with exactly this body. */
export const unknownModelIsNotFound: Check = async (bench) => {
  const { status, body } = await send(bench, get('/models/no-such-model'));
  const error = { type: 'not_found_error', message: expect.any(String) };
  expect({ status, body }).toEqual({ status: 404, body: { type: 'error', error } });
};

const opaqueIds = ['x', '0', 'a%20b', '%F0%9F%92%A1', 'x'.repeat(500), 'key_1', "'--", '%00'];

/** §4, §4.1, §4.2. */
export const chatLines = [
  ...defineLines('4', {
    'All endpoints require the bearer credential (section 5)': needsKey(...endpoints),
    'are subject to the rate limit (section 8)': needsRate(...endpoints),
    '`id` and `keyId` in paths are opaque strings': opaqueIds.flatMap((id) => [
      answers(get(`/models/${id}`), 404, { type: 'error' }),
      answers(remove(`/api-keys/${id}`), 404, { error: 'NOT_FOUND' }),
    ]),
  }),
  ...defineLines('4.1', {
    '**POST /api/v1/chat** — create a chat completion. Body: ChatRequest': [
      answers(chat({ stream: false, temperature: 0.5, max_tokens: 100 }), 200, chatResponse),
      everyModel,
      rejects(post('/chat', { messages }), 'model'),
      rejects(post('/chat', { model: 'gpt-4o' }), 'messages'),
      ...['system', 'user', 'assistant'].map((role) =>
        answers(chat({ messages: [{ role, content: 'x' }, ...messages] }), 200),
      ),
      rejects(chat({ messages: [{ role: 'tool', content: 'x' }] }), 'messages'),
      answers(chat({ messages: [{ role: 'user', content: withImage }] }), 200, {
        content: expect.stringContaining('I see 1 image(s).'),
      }),
    ],
    '200: ChatResponse as JSON when stream is false or absent': [
      isOfType(chat({}), 'application/json'),
      isOfType(chat({ stream: false }), 'application/json'),
      answers(chat({}), 200, chatResponse),
    ],
    'SSE stream when stream is true': isOfType(chat({ stream: true }), 'text/event-stream'),
    'Errors: 400 (invalid body or unknown model), 401, 402, 403, 429, 500.': [
      answers(post('/chat', '{"model":'), 400, { error: 'INVALID_REQUEST' }),
      ...chatErrors(chat, endpoints.slice(0, 1)),
    ],
    '**POST /api/v1/chat/completions** — alias of the above … also accepts the third-party chat-completions request shape and may answer with the `choices` envelope. Body: ChatRequest':
      [
        answers(completions({}), 200, {
          object: 'chat.completion',
          choices: [
            { index: 0, message: { role: 'assistant', content: 'You said: what is this' } },
          ],
          ...chatResponse,
        }),
        answers(
          completions({
            messages: [{ role: 'developer', content: 'Be brief.' }, ...messages],
            max_completion_tokens: 9,
            top_p: 1,
            user: 'u',
          }),
          200,
        ),
      ],
    '200: JSON whose shape depends on the request style, or an SSE stream': [
      isOfType(completions({}), 'application/json'),
      isOfType(completions({ stream: true }), 'text/event-stream'),
    ],
    'Same errors': chatErrors(completions, endpoints.slice(1, 2)),
  }),
  ...defineLines('4.2', {
    '**GET /api/v1/models** — list models. No body. 200: ModelList': answers(get('/models'), 200, {
      data: expect.any(Array),
      models: expect.any(Array),
    }),
    'each entry carries both the `{id, object, created, owned_by}` shape': everyEntry(
      'id',
      'object',
      'created',
      'owned_by',
    ),
    'and the `{type, id, display_name, created_at}` shape': everyEntry(
      'type',
      'id',
      'display_name',
      'created_at',
    ),
    'the legacy `models` array is also present': legacyEntries,
    '`X-RateLimit-Limit` (integer, 60) … `X-RateLimit-Remaining` (integer) … `X-RateLimit-Reset` (integer, Unix seconds when the window resets) … `X-Request-Id` (string)':
      carriesHeaders(get('/models')),
    'Errors: 401, 403, 429, 500.': needsAccess(get('/models')),
    '**GET /api/v1/models/{id}** — path parameter `id` (string, required). 200: ModelEntry': [
      answers(get('/models/gpt-4o'), 200, entry),
      answers(get('/models/groq%2Fopenai%2Fgpt-oss-120b'), 200, { id: 'groq/openai/gpt-oss-120b' }),
    ],
    '404 for an unknown id, with body `{type: "error", error: {type: "not_found_error", message: <string>}}`':
      unknownModelIsNotFound,
    'Also 401, 403, 429, 500.': needsAccess(...selectEndpoints('/models/')),
  }),
];
