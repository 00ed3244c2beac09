/**
 * The sources of the chat catalog become rows: the priority of the sources, and the omitted models.
 */
import { describe, expect, it } from 'vitest';
import { buildChatRows } from '../../dev/catalog/chat-rows.ts';
import type { ChatSources, LitellmModel, PiModel } from '../../dev/catalog/chat-sources.ts';
import { chatProviders } from '../../chat/chat-providers.ts';

const today = '2026-11-21';

function listed(id: string, changes: Partial<PiModel> = {}): PiModel {
  return {
    id,
    name: id.toUpperCase(),
    reasoning: false,
    input: ['text'],
    cost: { input: 1, output: 2 },
    contextWindow: 100_000,
    maxTokens: 10_000,
    ...changes,
  };
}

function sources(
  models: Record<string, PiModel[]>,
  others: Partial<Omit<ChatSources, 'pi'>> = {},
): ChatSources {
  return {
    pi: (provider) => models[provider] ?? [],
    litellm: {},
    modelsDev: {},
    prices: {},
    status: {},
    findDescription: () => undefined,
    ...others,
  };
}

const build = (from: ChatSources) => buildChatRows(from, chatProviders, today);
const litellm = (
  input: number,
  output: number,
  more: Partial<LitellmModel> = {},
): LitellmModel => ({
  mode: 'chat',
  input_cost_per_token: input / 1e6,
  output_cost_per_token: output / 1e6,
  ...more,
});
const priced = (input: number, output: number, since: string) => ({
  standard: [{ rates: { input, output, valid_from: `${since}T00:00:00Z` } }],
});
const known = (more: Partial<LitellmModel>) => ({ litellm: { a: litellm(1, 2, more) } });
const toSeconds = (date: string): number => Date.parse(date) / 1000;

describe('a row of the chat catalog', () => {
  it('combines the facts of all sources', () => {
    const tiers = [{ inputTokensAbove: 50_000, input: 3, output: 4 }];
    const model = listed('gemini-9', {
      name: 'Gemini 9',
      reasoning: true,
      input: ['text', 'image'],
      maxTokens: 200_000,
      cost: { input: 1, output: 2, tiers },
    });
    const other = litellm(1, 2, {
      supports_audio_input: true,
      input_cost_per_audio_token: 5e-6,
      deprecation_date: '2027-01-01',
    });
    const dated = { release_date: '2026-05', modalities: { input: ['text', 'video'] } };
    const { rows, notes } = build(
      sources(
        { google: [model] },
        {
          litellm: { 'gemini/gemini-9': other },
          modelsDev: { google: { models: { 'gemini-9': dated } } },
        },
      ),
    );
    expect(notes).toEqual([]);
    expect(rows).toEqual([
      {
        id: 'gemini-9',
        name: 'Gemini 9',
        ownedBy: 'google',
        created: toSeconds('2026-05-01'),
        provider: 'google',
        protocol: 'openai',
        upstreamModel: 'gemini-9',
        cost: {
          inputUsdPerMillion: 1,
          outputUsdPerMillion: 2,
          audioInputUsdPerMillion: 5,
          longInput: { inputTokensAbove: 50_000, inputUsdPerMillion: 3, outputUsdPerMillion: 4 },
        },
        limit: { context: 100_000, output: 100_000 },
        reasoning: true,
        efforts: ['none', 'minimal', 'low', 'medium', 'high'],
        supportsImages: true,
        supportsAudio: true,
        retiresOn: '2027-01-01',
        description:
          'Reasoning model that reads text, images and audio: 100K tokens of context, 100K per answer.',
      },
    ]);
  });

  it('with audio input needs a price for audio', () => {
    const audio = (perToken: number | undefined, cost: object | undefined) => {
      const audioPrice = perToken !== undefined && { input_cost_per_audio_token: perToken };
      const other = litellm(1, 2, { supports_audio_input: true, ...audioPrice });
      const facts = {
        litellm: { 'gemini/gemini-9': other },
        modelsDev: { google: { models: { 'gemini-9': { ...(cost && { cost }) } } } },
      };
      return build(sources({ google: [listed('gemini-9')] }, facts)).rows.map((row) => [
        row.supportsAudio ?? false,
        row.cost.audioInputUsdPerMillion,
      ]);
    };
    expect(audio(3e-6, undefined)).toEqual([[true, 3]]);
    expect(audio(undefined, { input: 1, input_audio: 4 })).toEqual([[true, 4]]);
    expect(audio(undefined, { input: 1 })).toEqual([[true, undefined]]);
    // A list with another price of input is out of date.
    expect(audio(undefined, { input: 0.5, input_audio: 4 })).toEqual([[false, undefined]]);
    expect(audio(undefined, undefined)).toEqual([[false, undefined]]);
  });

  it('for a model at another host starts its id with the host’s name and keeps its maker', () => {
    const { rows } = build(
      sources({
        groq: [listed('openai/gpt-oss-20b'), listed('llama-3.3-70b')],
        together: [listed('zai-org/GLM-5.3'), listed('reflection/Beam-1')],
        mistral: [listed('zai-glm-5-3')],
      }),
    );
    expect(rows.map((row) => [row.id, row.upstreamModel, row.ownedBy])).toEqual([
      ['groq/llama-3.3-70b', 'llama-3.3-70b', 'meta'],
      ['groq/openai/gpt-oss-20b', 'openai/gpt-oss-20b', 'openai'],
      ['together/reflection/Beam-1', 'reflection/Beam-1', 'reflection'],
      ['together/zai-org/GLM-5.3', 'zai-org/GLM-5.3', 'zai'],
      ['zai-glm-5-3', 'zai-glm-5-3', 'zai'],
    ]);
    expect(rows[0]?.name).toBe('LLAMA-3.3-70B (Groq)');
    expect(rows[4]?.description).toContain('served by Mistral');
  });

  const lasting = 'A small model for quick answers and long documents.';
  const passing = 'Our most capable model for complex reasoning and agentic coding';
  it.each([
    ['their own words where they last', 'gpt-9', lasting, true],
    ['not what passes', 'gpt-9', passing, false],
    ['not a fragment', 'gpt-9', 'Good model.', false],
    ['not another model', 'gpt-8', lasting, false],
  ])('has its description from %s', (_, id, description, kept) => {
    const findDescription = () => ({ id, description });
    const [row] = build(sources({ openai: [listed('gpt-9')] }, { findDescription })).rows;
    expect(row?.description).toMatch(kept ? description : /^Chat model that reads text:/);
  });
});

const other = litellm(5, 6);
const since = (input: number, output: number) => ({
  'gpt-9': priced(input, output, '2026-01-01'),
});
it.each([
  { who: 'litellm alone', other, history: {}, price: [1, 2], notes: 1 },
  { who: 'both others together', other, history: since(5, 6), price: [5, 6], notes: 1 },
  { who: 'each of the others', other, history: since(7, 8), price: [1, 2], notes: 1 },
  {
    who: 'model-prices alone',
    other: litellm(1, 2),
    history: since(9, 9),
    price: [1, 2],
    notes: 0,
  },
])('the price of a row is chosen as expected when $who contradicts', (given) => {
  const facts = { litellm: { 'gpt-9': given.other }, prices: { openai: given.history } };
  const { rows, notes } = build(sources({ openai: [listed('gpt-9')] }, facts));
  const [row] = rows;
  expect([row?.cost.inputUsdPerMillion, row?.cost.outputUsdPerMillion]).toEqual(given.price);
  expect(notes).toHaveLength(given.notes);
});

const prices = { xai: { 'grok-9': priced(1, 2, '2026-03-04') } };
const modelsDev = { xai: { models: { 'grok-9': { release_date: '2026-02-01' } } } };
it.each([
  { from: 'models-dev', provider: 'xai', id: 'grok-9', modelsDev, date: '2026-02-01' },
  { from: 'the first price', provider: 'xai', id: 'grok-9', date: '2026-03-04' },
  { from: 'the same model elsewhere', provider: 'together', id: 'x/Grok-9', date: '2026-03-04' },
  { from: "Mistral's ids", provider: 'mistral', id: 'codestral-2508', date: '2025-08-01' },
  { from: 'the listing itself', provider: 'openai', id: 'gpt-9', date: '2026-11-10' },
])('the release date of a row comes from $from', (given) => {
  const facts = { modelsDev: given.modelsDev ?? {}, prices };
  const [row] = build(sources({ [given.provider]: [listed(given.id)] }, facts)).rows;
  expect(row?.created).toBe(toSeconds(given.date));
});

describe('the catalog', () => {
  const elsewhere = { supported_endpoints: ['/v1/responses'] };
  it.each<[string, PiModel, Parameters<typeof sources>[1]]>([
    ['no price', listed('a', { cost: { input: 0, output: 0 } }), {}],
    ['no limits', listed('a', { maxTokens: 0 }), {}],
    ['not a chat model for everyone', listed('gpt-9-realtime'), {}],
    ['served as responses', listed('a'), known({ mode: 'responses' })],
    ['not served on chat-completions', listed('a'), known(elsewhere)],
    [`retired on ${today}`, listed('a'), known({ deprecation_date: today })],
    ['removed', listed('a'), { status: { openai: { a: 'removed' } } }],
  ])('omits a model with %s', (reason, model, others) => {
    const { rows, notes } = build(sources({ openai: [model] }, others));
    expect(rows).toEqual([]);
    expect(notes).toEqual([`left out ${model.id}: ${reason}`]);
  });

  it('keeps a model whose retirement is announced for a later date', () => {
    const facts = {
      ...known({ deprecation_date: '2026-11-22' }),
      status: { openai: { a: 'deprecated' } },
    };
    const { rows } = build(sources({ openai: [listed('a')] }, facts));
    expect(rows[0]?.retiresOn).toBe('2026-11-22');
  });
});
