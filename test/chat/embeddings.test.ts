/** POST /embeddings: vectors, charges and rejections, with the official `openai` client, the AI SDK and LangChain. */
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OpenAIEmbeddings } from '@langchain/openai';
import { embed, embedMany } from 'ai';
import { describe, expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { readChats, untilAllSettled } from './chat-account.ts';
import { say, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
const texts = ['a lighthouse at the pier', 'a harbour', 'naïve 灯台'];
const lengthOf = (vector: readonly number[]): number => Math.hypot(...vector);

interface Estimate {
  items: object[];
  most: number;
}

/** The fields of the responses that the tests read. */
interface Body {
  id: string;
  object: string;
  model: string;
  data: { index: number; embedding: number[] | string }[];
  usage: { prompt_tokens: number };
  creditsConsumed: number;
  error: { param: string };
  details: { path: string }[];
}

const post = <Answered = Body>(
  body: object,
  { path = '/embeddings', caller = clients.caller } = {},
) => gateway.call<Answered>(`/api/v1${path}`, { key: caller.key, body });
const small = (fields: object) => ({ model: 'text-embedding-3-small', ...fields });

describe('a request for embeddings', () => {
  it.each([
    ['text-embedding-3-small', 1536, 'provider'],
    ['text-embedding-3-large', 3072, 'provider'],
    ['text-embedding-ada-002', 1536, 'provider'],
    ['openai/text-embedding-3-small', 1536, 'provider'],
    ['gemini-embedding-001', 3072, 'gateway'],
    ['gemini-embedding-2', 3072, 'gateway'],
    ['mistral-embed', 1024, 'provider'],
    ['codestral-embed', 1536, 'provider'],
  ])(
    'returns the same unit vectors in both formats, and is charged (%s)',
    async (model, size, by) => {
      const { embeddings } = clients.openai;
      // The client requests base64 by default, and converts it to numbers.
      const packed = await embeddings.create({ model, input: texts });
      const plain = await embeddings.create({ model, input: texts, encoding_format: 'float' });
      expect(packed.data.map(({ index }) => index)).toEqual([0, 1, 2]);
      for (const [index, { embedding }] of packed.data.entries()) {
        expect(embedding).toHaveLength(size);
        expect(lengthOf(embedding)).toBeCloseTo(1, 5);
        expect(plain.data[index]?.embedding).toEqual(embedding);
      }
      expect(packed.data[0]?.embedding).not.toEqual(packed.data[1]?.embedding);
      const tokens = by === 'provider' ? 9 : 13;
      expect(packed.usage).toEqual({ prompt_tokens: tokens, total_tokens: tokens });
      for (const row of await untilAllSettled(gateway, clients.caller)) {
        expect(row).toMatchObject({ state: 'charged', output_tokens: 0 });
        expect([row.counted_by, row.input_tokens]).toEqual([by, tokens]);
        expect(row.charged).toBeGreaterThan(0);
      }
    },
  );

  const one = texts[1];
  it.each<[string, object, number]>([
    ['a text', { input: one }, 1536],
    ['a list of one text', { input: [one] }, 1536],
    ['tokens', { input: [64, 7, 9] }, 1536],
    ['lists of tokens', { input: [[64, 7], [9]] }, 1536],
    ['fewer dimensions', { input: one, dimensions: 256 }, 256],
    ['other fields', { input: one, dimensions: null, user: 'u', encoding_format: null }, 1536],
  ])('accepts %s', async (_name, fields, size) => {
    const { status, body } = await post(small(fields));
    expect([status, body.object, body.data[0]?.embedding.length]).toEqual([200, 'list', size]);
    expect(body.model).toBe('text-embedding-3-small');
  });

  it('reaches each provider with the fields that it knows', async () => {
    const input = ['unique wire'];
    const fields = { input, dimensions: 512, user: 'someone', encoding_format: 'base64' };
    for (const model of ['text-embedding-3-large', 'gemini-embedding-001', 'codestral-embed'])
      expect((await post({ ...fields, model })).status).toBe(200);
    const sent = await gateway.sandbox.chatRequests('unique wire');
    expect(sent).toEqual([
      { ...fields, model: 'text-embedding-3-large' },
      { model: 'gemini-embedding-001', input, dimensions: 512 },
      { model: 'codestral-embed', input, output_dimension: 512 },
    ]);
  });

  it('is as large as OpenAI allows: 2,048 inputs, 300,000 tokens', async () => {
    const many = Array.from({ length: 2048 }, (_, index) => `text ${index}`);
    const { status, body } = await post(small({ input: many, encoding_format: 'base64' }));
    expect([status, body.data.length, body.data[2047]?.index]).toEqual([200, 2048, 2047]);
    const wide = { model: 'text-embedding-3-large', input: many.slice(0, 2) };
    const packed = await post({ ...wide, encoding_format: 'base64' });
    const vector = String(packed.body.data[1]?.embedding);
    expect([packed.status, Buffer.from(vector, 'base64').length]).toEqual([200, 3072 * 4]);
    const tokens = Array.from({ length: 50 }, () => Array.from({ length: 6000 }, () => 7));
    const large = await post(small({ input: tokens, encoding_format: 'base64' }));
    expect([large.status, large.body.usage]).toMatchObject([200, { prompt_tokens: 300_000 }]);
  });

  const long = 'word '.repeat(9000);
  it.each<[object, string, number, string]>([
    [{ model: 'gpt-5-mini', input: 'a' }, 'model', 404, 'use POST /api/v1/chat'],
    [{ model: 'nano-banana', input: 'a' }, 'model', 404, 'use POST /api/v1/studio/image/generate'],
    [
      { model: 'text-embedding-3-smal', input: 'a' },
      'model',
      404,
      'did you mean text-embedding-3-small',
    ],
    [small({}), 'input', 400, 'is required: a text'],
    [small({ input: '' }), 'input', 400, 'must not be empty'],
    [small({ input: [] }), 'input', 400, 'must contain at least one input'],
    [small({ input: ['a', ''] }), 'input.1', 400, 'must not be empty'],
    [small({ input: ['a', 1] }), 'input.1', 400, 'must be a text (received 1)'],
    [small({ input: ['a', null] }), 'input.1', 400, 'must be a text'],
    [small({ input: [[1], []] }), 'input.1', 400, 'must contain at least one token'],
    [small({ input: [[1], 'a'] }), 'input.1', 400, 'must be a list of tokens'],
    [small({ input: [1, 'a'] }), 'input', 400, 'must contain only tokens'],
    [small({ input: [[1, -1]] }), 'input.0', 400, 'must contain only tokens'],
    [small({ input: [1.5] }), 'input.0', 400, 'must be a text or a list of tokens'],
    [small({ input: { a: 1 } }), 'input', 400, 'must be a text, up to 2048 texts'],
    [
      small({ input: Array.from({ length: 2049 }, () => 'a') }),
      'input',
      400,
      'at most 2048 inputs, has 2049',
    ],
    [
      small({ input: Array.from({ length: 300_001 }, () => 7) }),
      'input',
      400,
      'at most 300000 tokens',
    ],
    [small({ input: ['a', long] }), 'input.1', 400, 'at most 8191 tokens'],
    [small({ input: Array.from({ length: 8192 }, () => 7) }), 'input', 400, 'at most 8191 tokens'],
    [small({ input: 'a', dimensions: 0 }), 'dimensions', 400, 'received 0'],
    [small({ input: 'a', dimensions: 1537 }), 'dimensions', 400, 'at most 1536'],
    [small({ input: 'a', encoding_format: 'int8' }), 'encoding_format', 400, 'float, base64'],
    [
      { model: 'text-embedding-ada-002', input: 'a', dimensions: 256 },
      'dimensions',
      400,
      'must be 1536',
    ],
    [{ model: 'mistral-embed', input: [1, 2] }, 'input', 400, 'does not accept tokens'],
    [
      { model: 'gemini-embedding-001', input: Array.from({ length: 101 }, () => 'a') },
      'input',
      400,
      'at most 100 inputs with gemini-embedding-001, has 101',
    ],
    [
      { model: 'text-embedding-3-large', input: Array.from({ length: 1025 }, () => 'a') },
      'input',
      400,
      'at most 1024 inputs with vectors of 3072 numbers, has 1025; `encoding_format: base64` allows more',
    ],
    [
      {
        model: 'codestral-embed',
        input: Array.from({ length: 1025 }, () => 'a'),
        dimensions: 3072,
        encoding_format: 'base64',
      },
      'input',
      400,
      'at most 1024 inputs with vectors of 3072 numbers, has 1025',
    ],
  ])(
    'that is invalid costs nothing and names the field: %#',
    async (body, param, status, words) => {
      for (const path of ['/embeddings', '/embeddings/estimate']) {
        const answer = await post(body, { path });
        const { error, details } = answer.body;
        const field = path === '/embeddings' ? error.param : details[0]?.path;
        // An unknown model is 404 where OpenAI's clients ask, and 400 at the gateway's own endpoint.
        expect([answer.status, field]).toEqual([path === '/embeddings' ? status : 400, param]);
        expect(JSON.stringify(answer.body)).toContain(words);
      }
      expect((await readChats(gateway, clients.caller)).length).toBe(0);
    },
  );

  it('names its unknown fields, and gives chat models their own error', async () => {
    const { status, headers } = await post(
      small({ input: 'a', input_type: 'query', models: ['x'] }),
    );
    expect([status, headers.get('x-ignored-fields')]).toEqual([200, 'input_type, models']);
    const chat = { model: 'text-embedding-3-small', messages: say('hello'), max_tokens: 9 };
    const statuses = {
      chat: 400,
      'chat/completions': 400,
      messages: 404,
      'messages/count_tokens': 404,
    };
    for (const [path, expected] of Object.entries(statuses)) {
      const { status: rejected, body } = await post(chat, { path: `/${path}` });
      expect(rejected).toBe(expected);
      expect(JSON.stringify(body)).toContain('is not a chat model; use POST /api/v1/embeddings');
    }
    const fallback = { ...chat, model: 'gpt-5-mini', models: ['mistral-embed'] };
    expect((await post(fallback, { path: '/chat/completions' })).body.error.param).toBe('models.0');
  });

  it('is estimated, tagged and counted as a chat is', async () => {
    const request = small({ input: texts, metadata: { team: 'search' } });
    const estimate = await post<StudioBody<Estimate>>(request, { path: '/embeddings/estimate' });
    const { items, most } = estimate.body.data;
    expect(items).toEqual([{ unit: 'input token', quantity: expect.any(Number), credits: most }]);
    const { id, creditsConsumed: credits } = (await post(request)).body;
    expect(credits).toBeLessThanOrEqual(most);
    const { key } = clients.caller;
    const model = 'text-embedding-3-small';
    const usage = await gateway.call('/api/v1/usage?metadata[team]=search', { key });
    const record = { id, type: 'chat', model, credits, inputTokens: 9, outputTokens: 0 };
    expect(usage.body).toMatchObject({ usage: [record] });
    expect((await gateway.call(`/api/v1/chats/${id}`, { key })).body.data).toMatchObject(record);
  });

  it('is rejected without credits, and for a key without the scope or the model', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    expect((await post(small({ input: 'a' }), { caller: poor })).status).toBe(402);
    const reader = await gateway.newCaller({ credits: 1, scopes: ['models:read'] });
    expect((await post(small({ input: 'a' }), { caller: reader })).status).toBe(403);
  });
});

describe('frameworks', () => {
  const settings = () => ({ baseURL: `${gateway.url}/v1`, apiKey: clients.caller.key });
  const values = ['one pier', 'two piers'];

  it.each([
    ['openai', () => createOpenAI(settings()).embedding('text-embedding-3-small')],
    ['openai, another maker', () => createOpenAI(settings()).embedding('gemini-embedding-001')],
    [
      'openai-compatible',
      () =>
        createOpenAICompatible({ name: 'gateway', ...settings() }).embeddingModel('mistral-embed'),
    ],
  ])('the AI SDK embeds (%s)', async (_name, create) => {
    const { embeddings, usage } = await embedMany({ model: create(), values });
    const { embedding } = await embed({ model: create(), value: values[1] ?? '' });
    expect(embeddings).toHaveLength(2);
    expect(embeddings[1]).toEqual(embedding);
    expect(usage.tokens).toBeGreaterThan(0);
    expect(await untilAllSettled(gateway, clients.caller)).toHaveLength(2);
  });

  it.each(['text-embedding-3-large', 'gemini-embedding-001', 'mistral-embed'])(
    'LangChain embeds (%s)',
    async (model) => {
      const { baseURL, apiKey } = settings();
      const langchain = new OpenAIEmbeddings({
        model,
        apiKey,
        configuration: { baseURL },
        maxRetries: 0,
      });
      const vectors = await langchain.embedDocuments(values);
      expect(vectors).toHaveLength(2);
      expect(await langchain.embedQuery(values[0] ?? '')).toEqual(vectors[0]);
    },
  );
});
