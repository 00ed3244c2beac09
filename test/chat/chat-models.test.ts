/** The committed catalog: the properties that callers can expect of every row. */
import { stat } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { chatModels, createChatCatalog, isRetired } from '../../chat/models.ts';
import committed from '../../chat/chat-models.json' with { type: 'json' };
import { chatProviders } from '../../chat/chat-providers.ts';

const builtAtMs = Date.parse(committed.builtOn);
const file = new URL('../../chat/chat-models.json', import.meta.url);

describe('the committed chat catalog', () => {
  it('has more than a hundred models in service today, from several makers', () => {
    const today = createChatCatalog(chatModels).listCurrent();
    expect(today.length).toBeGreaterThan(100);
    expect(new Set(today.map((model) => model.ownedBy)).size).toBeGreaterThan(5);
    expect(today.filter((model) => isRetired(model, Date.now()))).toEqual([]);
  });

  it('contained no retired model on its build date, and that date is not in the future', () => {
    expect(builtAtMs).toBeLessThanOrEqual(Date.now());
    expect(chatModels.filter((model) => isRetired(model, builtAtMs))).toEqual([]);
  });

  it('has unique ids, some with slashes', () => {
    const ids = chatModels.map((model) => model.id);
    expect(new Set(ids).size).toBe(ids.length);
    // A client that ignores case must not get another model than it named.
    expect(new Set(ids.map((id) => id.toLowerCase())).size).toBe(ids.length);
    expect(ids.filter((id) => id.includes('/')).length).toBeGreaterThan(10);
  });

  it.each(chatModels.map((model) => [model.id, model] as const))('is complete: %s', (_, model) => {
    expect(model.name.trim()).toBe(model.name);
    expect(model.ownedBy).toMatch(/^[a-z][a-z0-9-]*$/);
    expect(model.created * 1000).toBeGreaterThan(Date.parse('2022-12-01'));
    expect(model.created * 1000).toBeLessThanOrEqual(builtAtMs);
    expect(model.description).toMatch(/^.{20,300}\.$/);
    const { inputUsdPerMillion, outputUsdPerMillion, longInput } = model.cost;
    expect(inputUsdPerMillion).toBeGreaterThan(0);
    // Beyond this a price was almost certainly given per thousand or per token.
    expect(outputUsdPerMillion).toBeLessThan(1000);
    if (model.embedding) {
      expect(outputUsdPerMillion).toBe(0);
      expect(model.limit.context).toBeGreaterThanOrEqual(2000);
      expect(model.embedding.dimensions).toBeGreaterThanOrEqual(256);
    } else {
      expect(outputUsdPerMillion).toBeGreaterThanOrEqual(inputUsdPerMillion);
      expect(model.limit.context).toBeGreaterThanOrEqual(8000);
      expect(model.limit.output).toBeGreaterThan(0);
    }
    expect(model.limit.output).toBeLessThanOrEqual(model.limit.context);
    if (longInput) {
      expect(longInput.inputTokensAbove).toBeLessThan(model.limit.context);
      expect(longInput.inputUsdPerMillion).toBeGreaterThan(inputUsdPerMillion);
      expect(longInput.outputUsdPerMillion).toBeGreaterThan(outputUsdPerMillion);
    }
    const provider = chatProviders.find(({ name }) => name === model.provider);
    expect(provider?.protocol).toBe(model.protocol);
    const prefix = provider?.hostsOtherMakers ? `${model.provider}/` : '';
    expect(model.id).toBe(`${prefix}${model.upstreamModel}`);
  });

  it('names its sources with their versions and stays small', async () => {
    expect(committed.sources.length).toBeGreaterThan(2);
    for (const source of committed.sources) expect(source).toMatch(/^@?[\w/-]+@\d+\.\d+\.\d+$/);
    expect((await stat(file)).size).toBeLessThan(300_000);
  });
});
