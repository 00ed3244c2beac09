/** Searches for chat models, and the settings with which an operator changes them. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  openChatCatalog,
  chatModels,
  applyBook,
  configureChatModels,
  createChatCatalog,
  getKind,
  selectChatPrice,
  type ChatModel,
} from '../../chat/models.ts';
import { ConfigError } from '../../platform/variable-types.ts';
import { catchFailure, catchGatewayError } from '../harness/failures.ts';
import { newFolder } from '../harness/folders.ts';

function model(id: string, changes: Partial<ChatModel> = {}): ChatModel {
  return {
    id,
    name: id,
    ownedBy: 'maker',
    created: 1_700_000_000,
    provider: 'openai',
    protocol: 'openai',
    upstreamModel: id,
    cost: { inputUsdPerMillion: 0.1, outputUsdPerMillion: 0.7 },
    limit: { context: 1000, output: 100 },
    ...changes,
  };
}

/** The committed models, without an operator's changes. */
const { find: findChatModel } = createChatCatalog(chatModels);

describe('the search for a chat model', () => {
  it('finds every committed model by its id', () => {
    for (const listed of createChatCatalog(chatModels).listCurrent()) {
      expect(findChatModel(listed.id, { kind: getKind(listed) })).toBe(listed);
    }
  });

  it('finds a model by maker or provider too, if its id contains no maker', () => {
    expect(findChatModel('anthropic/claude-opus-5').id).toBe('claude-opus-5');
    expect(findChatModel('mistral/zai-glm-5-3').id).toBe('zai-glm-5-3');
    expect(findChatModel('zai/zai-glm-5-3').id).toBe('zai-glm-5-3');
  });

  it.each([
    ['gpt41', 'gpt-4.1'],
    ['GPT-4O-MINI', 'gpt-4o-mini'],
    ['gemini 2.5 pro', 'gemini-2.5-pro'],
    ['openai/gpt-oss-120b', 'groq/openai/gpt-oss-120b'],
    ['anthropic/claude-opus-55', 'claude-opus-5'],
  ])('suggests the nearest ids for %s', (wrong, right) => {
    const fault = catchGatewayError(() => findChatModel(wrong));
    expect([fault.code, fault.status]).toEqual(['UNKNOWN_MODEL', 400]);
    expect(fault.message).toContain(`"${wrong}" does not exist; did you mean`);
    expect(fault.details).toEqual([{ path: 'model', message: expect.stringContaining(right) }]);
  });

  it.each(['', '?', 'zzzz', '__proto__', 'x'.repeat(100_000)])(
    'accepts any text, such as %s',
    (wrong) => {
      const fault = catchGatewayError(() => findChatModel(wrong));
      expect(fault.code).toBe('UNKNOWN_MODEL');
      expect(fault.message.length).toBeLessThan(200);
      expect(fault.details?.[0]?.message).toBe('GET /api/v1/models lists all models');
    },
  );

  it('finds a model until midnight (UTC) of the day on which it retires', () => {
    let now = Date.parse('2026-11-29T23:59:59.999Z');
    const retiring = model('old-one', { retiresOn: '2026-11-30' });
    const catalog = createChatCatalog([retiring, model('new-one')], { now: () => now });
    expect(catalog.find('old-one')).toBe(retiring);
    expect(catalog.listCurrent()).toHaveLength(2);
    now += 1;
    expect(catalog.listCurrent().map(({ id }) => id)).toEqual(['new-one']);
    expect(catalog.get('old-one')).toBeNull();
    const fault = catchGatewayError(() => catalog.find('old-one'));
    expect(fault.message).toBe('model "old-one" was retired on 2026-11-30; did you mean new-one?');
  });

  it('lists the newest models first', () => {
    const created = { b: 1, c: 2, a: 1 };
    const rows = Object.entries(created).map(([id, at]) => model(id, { created: at }));
    const listed = createChatCatalog(rows).listCurrent();
    expect(listed.map(({ id }) => id)).toEqual(['c', 'a', 'b']);
  });
});

describe('chat prices', () => {
  const cost = {
    inputUsdPerMillion: 1,
    outputUsdPerMillion: 2,
    longInput: { inputTokensAbove: 200, inputUsdPerMillion: 3, outputUsdPerMillion: 4 },
  };
  it('rise for the whole request if the input is long', () => {
    const prices = (input: number, output: number) => {
      return { inputUsdPerMillion: input, outputUsdPerMillion: output };
    };
    expect(selectChatPrice(cost, 200)).toMatchObject(prices(1, 2));
    expect(selectChatPrice(cost, 201)).toMatchObject(prices(3, 4));
    expect(selectChatPrice(model('flat').cost, 1e9)).toMatchObject(model('flat').cost);
  });

  it('for audio input equal those of other input, unless the row has an audio price', () => {
    expect(selectChatPrice(cost, 201).audioInputUsdPerMillion).toBe(3);
    expect(selectChatPrice({ ...cost, audioInputUsdPerMillion: 9 }, 201)).toMatchObject({
      inputUsdPerMillion: 3,
      audioInputUsdPerMillion: 9,
    });
  });

  it('include the mark-up, for long input too, without rounding noise', () => {
    const free = { cachedInputUsdPerMillion: 0, cacheWriteUsdPerMillion: 0 };
    const audio = { ...model('flat').cost, ...free, audioInputUsdPerMillion: 0.5 };
    const base = [model('flat'), model('long', { cost }), model('audio', { cost: audio })];
    const book = { kind: 'markup', row: 'price_1', markup: 2000 } as const;
    expect(base.map((row) => applyBook(row.cost, book, 0.01))).toEqual([
      { inputUsdPerMillion: 0.12, outputUsdPerMillion: 0.84 },
      {
        inputUsdPerMillion: 1.2,
        outputUsdPerMillion: 2.4,
        longInput: { inputTokensAbove: 200, inputUsdPerMillion: 3.6, outputUsdPerMillion: 4.8 },
      },
      {
        inputUsdPerMillion: 0.12,
        outputUsdPerMillion: 0.84,
        ...free,
        audioInputUsdPerMillion: 0.6,
      },
    ]);
    expect(base[0]?.cost.inputUsdPerMillion).toBe(0.1);
  });
});

describe('an operator’s chat models', () => {
  const base = [model('a'), model('b'), model('groq/c', { provider: 'groq' })];

  it('add to or replace the committed models, at their own prices', () => {
    const own = [model('a', { upstreamModel: 'mine' }), model('acme/x', { provider: 'acme' })];
    const rows = configureChatModels(base, { models: own, disable: [] });
    expect(rows.map(({ id }) => id)).toEqual(['b', 'groq/c', 'a', 'acme/x']);
    expect(rows.find(({ id }) => id === 'a')).toEqual(own[0]);
    expect(rows.find(({ id }) => id === 'b')?.cost.inputUsdPerMillion).toBe(0.1);
  });

  it('can be disabled by id and by provider', () => {
    const disable = ['a', 'groq/*'];
    const rows = configureChatModels(base, { models: [], disable });
    expect(rows).toEqual([model('b')]);
  });
});

describe('CHAT_MODELS_FILE', () => {
  async function open(content: string | undefined) {
    const file = join(newFolder(), 'models.json');
    if (content !== undefined) await writeFile(file, content);
    return openChatCatalog({ CHAT_MODELS_FILE: file });
  }

  it('is optional', async () => {
    const catalog = await openChatCatalog({ CHAT_MODELS_FILE: undefined });
    expect(catalog.find('gpt-4.1').cost.inputUsdPerMillion).toBe(
      findChatModel('gpt-4.1').cost.inputUsdPerMillion,
    );
  });

  it('adds its models to the committed catalog', async () => {
    const catalog = await open(JSON.stringify({ models: [model('acme/own:v1')] }));
    expect(catalog.find('acme/own:v1')).toEqual(model('acme/own:v1'));
    expect(catalog.get('gpt-4.1')).not.toBeNull();
  });

  const withRow = (row: object, ...more: object[]) => JSON.stringify({ models: [row, ...more] });
  const negative = { inputUsdPerMillion: -1, outputUsdPerMillion: 1 };
  it.each([
    ['is missing', undefined, /ENOENT/],
    ['is no JSON', '{', /JSON/],
    ['has another field', '{"model": []}', /\(file\): .*model/],
    ['has a row without a price', withRow({ ...model('a'), cost: {} }), /models\.0\.cost/],
    ['says false', withRow({ ...model('a'), reasoning: false }), /models\.0\.reasoning/],
    ['has a negative price', withRow(model('a', { cost: negative })), /inputUsdPerMillion/],
    ['has an id twice', withRow(model('a'), model('a')), /unique/],
    ['has an id with a space', withRow(model('a b')), /models\.0\.id/],
  ])('stops the process if it %s', async (_, content, fault) => {
    const { message } = await catchFailure(open(content), ConfigError);
    expect(message).toMatch(/^configuration: CHAT_MODELS_FILE is invalid: /);
    expect(message).toMatch(fault);
  });
});
