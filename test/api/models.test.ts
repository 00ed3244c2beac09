/** GET /models and /models/{id}, checked with the official clients for each response format. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { modelListSchema } from '../../api/endpoints/model-list.ts';
import type { ChatModel } from '../../chat/models.ts';
import { newFolder } from '../harness/folders.ts';
import { useGateway } from '../harness/gateway.ts';

type List = z.infer<typeof modelListSchema>;

const ownModel: ChatModel = {
  id: 'acme/house-model',
  name: 'House Model',
  ownedBy: 'acme',
  created: 1_700_000_000,
  provider: 'openai',
  protocol: 'openai',
  upstreamModel: 'house',
  cost: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 },
  limit: { context: 8000, output: 1000 },
};

const file = join(newFolder(), 'models.json');
await writeFile(file, JSON.stringify({ models: [ownModel], disable: ['gpt-4o', 'cerebras/*'] }));
const gateway = useGateway({
  env: { CHAT_MODELS_FILE: file },
  settled: 'last',
});
let openai: OpenAI;
let anthropic: Anthropic;
let everything: List;

beforeAll(async () => {
  const { key } = gateway.caller;
  openai = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/api/v1`, maxRetries: 0 });
  const baseURL = `${gateway.url}/api`;
  anthropic = new Anthropic({ authToken: key, apiKey: null, baseURL, maxRetries: 0 });
  everything = (await gateway.call<List>('/api/v1/models')).body;
});

const toIds = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);

describe('the list of models', () => {
  it('has all three formats in one response', () => {
    const { data, models } = everything;
    expect(data.length).toBeGreaterThan(100);
    expect(everything).toMatchObject({
      object: 'list',
      has_more: false,
      first_id: data[0]?.id,
      last_id: data.at(-1)?.id,
    });
    expect(models.map(({ id }) => id)).toEqual(toIds(everything));
    for (const entry of data) {
      expect(entry).toMatchObject({ object: 'model', type: 'model' });
      expect(entry.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
      expect(Date.parse(entry.created_at)).toBe(entry.created * 1000);
    }
  });

  it('states the limits and prices where clients look for them', async () => {
    const id = 'claude-sonnet-5';
    const listed = everything.data.find((entry) => entry.id === id);
    const { body: got } = await gateway.call(`/api/v1/models/${id}`);
    expect(listed).toEqual(got);
    const legacy = everything.models.find((entry) => entry.id === id);
    const { context, output } = legacy?.limit ?? {};
    expect(got).toEqual({
      id,
      object: 'model',
      created: expect.any(Number),
      owned_by: 'anthropic',
      type: 'model',
      kind: 'chat',
      display_name: 'Claude Sonnet 5',
      created_at: expect.any(String),
      // Anthropic's ModelInfo.
      capabilities: null,
      line: null,
      lifecycle: 'active',
      deprecated_at: null,
      retires_at: null,
      max_input_tokens: context,
      max_tokens: output,
      // OpenRouter's model.
      canonical_slug: id,
      name: 'Claude Sonnet 5',
      description: legacy?.description,
      context_length: context,
      architecture: {
        modality: 'text+image->text',
        input_modalities: ['text', 'image'],
        output_modalities: ['text'],
        tokenizer: 'Other',
        instruct_type: null,
      },
      pricing: {
        prompt: '0.000002',
        completion: '0.00001',
        input_cache_read: '0.0000002',
        input_cache_write: '0.0000025',
        audio: '0.000002',
      },
      top_provider: { context_length: context, max_completion_tokens: output, is_moderated: false },
      per_request_limits: null,
      supported_parameters: expect.arrayContaining(['reasoning', 'tools', 'top_k']),
    });
    for (const { pricing, supported_parameters: known, retires_at, lifecycle } of everything.data) {
      for (const price of Object.values(pricing)) expect(price).toMatch(/^\d+(\.\d{1,12})?$/);
      expect(known).toContain('max_tokens');
      expect(lifecycle).toBe(retires_at === null ? 'active' : 'deprecated');
    }
  });

  it('is empty for Codex, which would take the entries for its own', async () => {
    const { status, body } = await gateway.call('/v1/models?client_version=0.171.0');
    expect([status, body]).toMatchObject([200, { models: [], data: [] }]);
  });

  it('states in the legacy format only the abilities that a model has', () => {
    const gemini = everything.models.find(({ id }) => id === 'gemini-2.5-pro');
    expect(gemini).toEqual({
      id: 'gemini-2.5-pro',
      name: 'Gemini 2.5 Pro',
      kind: 'chat',
      cost: {
        input: 1.25,
        output: 10,
        cachedInput: 0.125,
        longInput: { inputTokensAbove: 200_000, input: 2.5, output: 15 },
      },
      limit: { context: 1_048_576, output: 65_536 },
      reasoning: true,
      supportsImages: true,
      supportsAudio: true,
      description: expect.stringMatching(/.{20,}/),
    });
  });

  it("contains the operator's own models, and no removed models", async () => {
    const ids = toIds(everything);
    expect(ids).toEqual(expect.arrayContaining(['acme/house-model', 'gpt-4o-mini']));
    expect(ids.filter((id) => id === 'gpt-4o' || id.startsWith('cerebras/'))).toEqual([]);
    expect((await gateway.call('/api/v1/models/gpt-4o')).status).toBe(404);
  });

  it('returns 304 to a client that has the current version', async () => {
    const listModels = (header: string) =>
      gateway.call('/api/v1/models', { headers: { 'if-none-match': header } });
    const etag = (await listModels('"other"')).headers.get('etag') ?? '';
    expect(etag).toMatch(/^W\/"[\w-]{43}"$/);
    for (const header of [etag, `"other", ${etag}`, '*']) {
      const unchanged = await listModels(header);
      expect([unchanged.status, unchanged.headers.get('etag')]).toEqual([304, etag]);
      expect(unchanged.headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/);
    }
    expect((await listModels('"other"')).status).toBe(200);
  });

  it('contains models that the key may not use', async () => {
    const { key } = await gateway.newCaller({ credits: 0, allowedModels: ['gpt-4o-mini'] });
    expect((await gateway.call<List>('/api/v1/models', { key })).body).toEqual(everything);
  });
});

const fetchPage = async (query: string) =>
  (await gateway.call<List>(`/api/v1/models?${query}`)).body;

describe('pages of models', () => {
  it('continue after an id and before an id', async () => {
    const all = toIds(everything);
    const id = (index: number): string => encodeURIComponent(all.at(index) ?? '');
    const first = await fetchPage('limit=3');
    expect(first).toMatchObject({ has_more: true, first_id: all[0], last_id: all[2] });
    expect(first.models).toHaveLength(3);
    for (const [query, expected, hasMore] of [
      ['limit=3', all.slice(0, 3), true],
      [`limit=3&after_id=${id(2)}`, all.slice(3, 6), true],
      [`limit=3&before_id=${id(4)}`, all.slice(1, 4), true],
      [`limit=3&before_id=${id(2)}`, all.slice(0, 2), false],
      [`after_id=${id(-2)}`, all.slice(-1), false],
    ] as const) {
      const page = await fetchPage(query);
      expect([query, toIds(page), page.has_more]).toEqual([query, expected, hasMore]);
    }
    const beyond = await fetchPage(`after_id=${id(-1)}`);
    expect(beyond).toMatchObject({ data: [], has_more: false, first_id: null, last_id: null });
  });

  it.each([
    ...'limit=0 limit=1001 limit=ten limit=1&limit=2'.split(' '),
    ...'after_id=none before_id=none before_id=gpt-4.1&after_id=gpt-4.1'.split(' '),
  ])('reject %s', async (query) => {
    const error = query.includes('&after') ? 'CONFLICTING_FIELDS' : 'INVALID_REQUEST';
    expect(await gateway.call(`/api/v1/models?${query}`)).toMatchObject({
      status: 400,
      body: { error, details: [{ path: query.split('=')[0] }] },
    });
  });
});

describe('one model', () => {
  it('is found by an id with slashes, plain and encoded', async () => {
    const id = 'groq/openai/gpt-oss-120b';
    const expected = everything.data.find((model) => model.id === id);
    expect(expected).toMatchObject({ owned_by: 'openai', display_name: 'GPT OSS 120B (Groq)' });
    for (const path of [id, encodeURIComponent(id), 'groq%2Fopenai/gpt-oss-120b']) {
      const answer = await gateway.call(`/api/v1/models/${path}`);
      expect([answer.status, answer.body]).toEqual([200, expected]);
    }
  });

  it.each(['none', 'groq/none', '%E0%A4%A', '__proto__', 'constructor', 'x'.repeat(3000)])(
    'returns 404 in the format of the specification when it does not exist: %s',
    async (id) => {
      const message = expect.stringMatching(/^model: .{1,128}$/);
      const { status, body } = await gateway.call(`/api/v1/models/${id}`);
      expect({ status, body }).toEqual({
        status: 404,
        body: { type: 'error', error: { type: 'not_found_error', message } },
      });
    },
  );
});

describe('the official OpenAI client', () => {
  it('lists all models', async () => {
    const page = await openai.models.list();
    const walked: string[] = [];
    for await (const { id } of page) walked.push(id);
    expect(walked).toEqual(toIds(everything));
  });
});

describe('the official Anthropic client', () => {
  it('reads all pages forwards, also on its beta path, and backwards from the end', async () => {
    const all = toIds(everything);
    const pages: string[][] = [];
    for await (const page of (await anthropic.beta.models.list({ limit: 17 })).iterPages()) {
      pages.push(toIds(page));
    }
    expect(pages.flat()).toEqual(all);
    expect(pages).toHaveLength(Math.ceil(all.length / 17));
    const last = await anthropic.models.list({ limit: 50, before_id: everything.last_id ?? '' });
    const back: string[][] = [];
    for await (const page of last.iterPages()) back.unshift(toIds(page));
    expect(back.flat()).toEqual(all.slice(0, -1));
  });
});
