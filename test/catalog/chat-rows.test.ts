/**
 * The sources of the chat catalog become rows: the priority of the sources, and the omitted models.
 */
import { describe, expect, it } from 'vitest';
import { buildChatRows } from '../../dev/catalog/chat-rows.ts';
import type { ChatSources, LitellmModel, PiModel } from '../../dev/catalog/chat-sources.ts';
import { chatProviders } from '../../catalog/chat-providers.ts';

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
const secondsOf = (date: string): number => Date.parse(date) / 1000;

describe('a row of the chat catalog', () => {
  it('combines the facts of all sources', () => {
    const { rows, notes } = build(
      sources(
        {
          google: [
            listed('gemini-9', {
              name: 'Gemini 9',
              reasoning: true,
              input: ['text', 'image'],
              maxTokens: 200_000,
              cost: {
                input: 1,
                output: 2,
                tiers: [{ inputTokensAbove: 50_000, input: 3, output: 4 }],
              },
            }),
          ],
        },
        {
          litellm: {
            'gemini/gemini-9': litellm(1, 2, {
              supports_audio_input: true,
              input_cost_per_audio_token: 5e-6,
              deprecation_date: '2027-01-01',
            }),
          },
          modelsDev: {
            google: {
              models: {
                'gemini-9': { release_date: '2026-05', modalities: { input: ['text', 'video'] } },
              },
            },
          },
        },
      ),
    );
    expect(notes).toEqual([]);
    expect(rows).toEqual([
      {
        id: 'gemini-9',
        name: 'Gemini 9',
        ownedBy: 'google',
        created: secondsOf('2026-05-01'),
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
        supportsImages: true,
        supportsAudio: true,
        retiresOn: '2027-01-01',
        description:
          'Reasoning model that reads text, images and audio: 100K tokens of context, 100K per answer.',
      },
    ]);
  });

  it('with audio input needs a price for audio', () => {
    const audio = (input_cost_per_audio_token: number | undefined, cost: object | undefined) =>
      build(
        sources(
          { google: [listed('gemini-9', { cost: { input: 1, output: 2 } })] },
          {
            litellm: {
              'gemini/gemini-9': litellm(1, 2, {
                supports_audio_input: true,
                ...(input_cost_per_audio_token !== undefined && { input_cost_per_audio_token }),
              }),
            },
            modelsDev: { google: { models: { 'gemini-9': { ...(cost && { cost }) } } } },
          },
        ),
      ).rows.map(({ supportsAudio = false, cost: { audioInputUsdPerMillion: usd } }) => [
        supportsAudio,
        usd,
      ]);
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

  it.each([
    [
      'their own words where they last',
      'A small model for quick answers and long documents.',
      true,
    ],
    ['not what passes', 'Our most capable model for complex reasoning and agentic coding', false],
    ['not a fragment', 'Good model.', false],
  ])('has its description from %s', (_, words, kept) => {
    const findDescription = (_provider: string, id: string) => ({ id, description: words });
    const [row] = build(sources({ openai: [listed('gpt-9')] }, { findDescription })).rows;
    expect(row?.description === words).toBe(kept);
  });

  it('has no description of another model', () => {
    const description = 'A small model for quick answers and long documents.';
    const findDescription = () => ({ id: 'gpt-8', description });
    const [row] = build(sources({ openai: [listed('gpt-9')] }, { findDescription })).rows;
    expect(row?.description).toMatch(/^Chat model that reads text:/);
  });
});

describe('the price of a row', () => {
  const other = litellm(5, 6);
  it.each([
    { who: 'litellm alone', other, history: {}, price: [1, 2], notes: 1 },
    {
      who: 'both others together',
      other,
      history: { 'gpt-9': priced(5, 6, '2026-01-01') },
      price: [5, 6],
      notes: 1,
    },
    {
      who: 'each of the others',
      other,
      history: { 'gpt-9': priced(7, 8, '2026-01-01') },
      price: [1, 2],
      notes: 1,
    },
    {
      who: 'model-prices alone',
      other: litellm(1, 2),
      history: { 'gpt-9': priced(9, 9, '2026-01-01') },
      price: [1, 2],
      notes: 0,
    },
  ])('is chosen as expected when $who contradicts', (given) => {
    const facts = { litellm: { 'gpt-9': given.other }, prices: { openai: given.history } };
    const { rows, notes } = build(sources({ openai: [listed('gpt-9')] }, facts));
    const [row] = rows;
    expect([row?.cost.inputUsdPerMillion, row?.cost.outputUsdPerMillion]).toEqual(given.price);
    expect(notes).toHaveLength(given.notes);
  });
});

describe('the release date of a row', () => {
  const prices = { xai: { 'grok-9': priced(1, 2, '2026-03-04') } };
  const modelsDev = { xai: { models: { 'grok-9': { release_date: '2026-02-01' } } } };
  it.each([
    { from: 'models-dev', provider: 'xai', id: 'grok-9', modelsDev, date: '2026-02-01' },
    { from: 'the first price', provider: 'xai', id: 'grok-9', date: '2026-03-04' },
    { from: 'the same model elsewhere', provider: 'together', id: 'x/Grok-9', date: '2026-03-04' },
    { from: "Mistral's ids", provider: 'mistral', id: 'codestral-2508', date: '2025-08-01' },
    { from: 'the listing itself', provider: 'openai', id: 'gpt-9', date: '2026-11-10' },
  ])('comes from $from', (given) => {
    const facts = { modelsDev: given.modelsDev ?? {}, prices };
    const [row] = build(sources({ [given.provider]: [listed(given.id)] }, facts)).rows;
    expect(row?.created).toBe(secondsOf(given.date));
  });
});

describe('the catalog', () => {
  it.each([
    { model: listed('a', { cost: { input: 0, output: 0 } }), reason: 'no price' },
    { model: listed('a', { maxTokens: 0 }), reason: 'no limits' },
    { model: listed('gpt-9-realtime'), reason: 'not a chat model for everyone' },
    { model: listed('a'), others: known({ mode: 'responses' }), reason: 'served as responses' },
    {
      model: listed('a'),
      others: known({ supported_endpoints: ['/v1/responses'] }),
      reason: 'not served on chat-completions',
    },
    {
      model: listed('a'),
      others: known({ deprecation_date: today }),
      reason: `retired on ${today}`,
    },
    { model: listed('a'), others: { status: { openai: { a: 'removed' } } }, reason: 'removed' },
  ])('omits a model with $reason', ({ model, others, reason }) => {
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
