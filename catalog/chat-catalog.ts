/**
 * The chat models of a gateway: the committed catalog (catalog/build makes it), the operator's own
 * models and prices, and look-ups over both.
 */
import { z } from 'zod';
import { GatewayError } from '../domain/errors.ts';
import { chatModelSchema, isRetired, type ChatCost, type ChatModel } from './chat-model.ts';
import delivered from './chat-models.json' with { type: 'json' };
import { createNearest } from '../domain/request-words.ts';

/** The committed models; some may have retired since they were gathered. */
export const chatModels: readonly ChatModel[] = z.array(chatModelSchema).parse(delivered.models);

/** An operator's models file. */
export const chatModelsFile = z.strictObject({
  /** Added, or put in the place of a committed model with the same id; prices as written. */
  models: z
    .array(chatModelSchema)
    .refine((rows) => new Set(rows.map((row) => row.id)).size === rows.length, 'ids must be unique')
    .default([]),
  /** Ids taken out; `provider/*` takes out all of a provider. */
  disable: z.array(z.string()).default([]),
});

/** What an operator changes. */
export type ChatOverlay = z.infer<typeof chatModelsFile> & {
  /** Added to the committed prices: 0.2 is 20 % on top. */
  priceMarkup: number;
};

/** The models of a gateway: `base` with the operator's changes. */
export function configureChatModels(
  base: readonly ChatModel[],
  { models, disable, priceMarkup }: ChatOverlay,
): ChatModel[] {
  const own = new Set(models.map((model) => model.id));
  const disabled = new Set(disable);
  const kept = base
    .filter((model) => !own.has(model.id))
    .map((model) => ({ ...model, cost: markedUp(model.cost, priceMarkup) }));
  return [...kept, ...models].filter(
    (model) => !disabled.has(model.id) && !disabled.has(`${model.provider}/*`),
  );
}

function markedUp(cost: ChatCost, markup: number): ChatCost {
  // To the millionth of a dollar: a binary fraction's noise must not show in a price list.
  const more = (usd: number): number => Number((usd * (1 + markup)).toFixed(6));
  const { longInput, audioInputUsdPerMillion: audio } = cost;
  return {
    inputUsdPerMillion: more(cost.inputUsdPerMillion),
    outputUsdPerMillion: more(cost.outputUsdPerMillion),
    ...(audio !== undefined && { audioInputUsdPerMillion: more(audio) }),
    ...(longInput && {
      longInput: {
        inputTokensAbove: longInput.inputTokensAbove,
        inputUsdPerMillion: more(longInput.inputUsdPerMillion),
        outputUsdPerMillion: more(longInput.outputUsdPerMillion),
      },
    }),
  };
}

/** The models as they are on a day. `now` is the clock in milliseconds. */
export function createChatCatalog(models: readonly ChatModel[], now: () => number = Date.now) {
  const ordered = models.toSorted((a, b) => b.created - a.created || (a.id < b.id ? -1 : 1));
  const byId = new Map([
    ...ordered.flatMap((model) => longIdsOf(model).map((id) => [id, model] as const)),
    ...ordered.map((model) => [model.id, model] as const),
  ]);
  /** Every model in service, newest first. */
  const current = (): readonly ChatModel[] => ordered.filter((model) => !isRetired(model, now()));

  /** By its id, or by its provider's or maker's name and its id (`openai/gpt-5`); null: none in service. */
  function get(id: string): ChatModel | null {
    const model = byId.get(id);
    return model && !isRetired(model, now()) ? model : null;
  }

  /**
   * Finds what a caller named in a field, `model` where none is told.
   * @throws GatewayError UNKNOWN_MODEL listing the nearest ids
   */
  function find(id: string, field = 'model'): ChatModel {
    const model = get(id);
    if (model) return model;
    const near = createNearest(current().map((each) => each.id))(id);
    throw unknownModel(id, { field, retired: byId.get(id), near });
  }

  return { current, get, find };
}

/** How other gateways name a model that its maker or one provider serves. */
function longIdsOf({ id, provider, ownedBy }: ChatModel): string[] {
  return id.includes('/') ? [] : [`${provider}/${id}`, `${ownedBy}/${id}`];
}

interface Miss {
  field: string;
  retired: ChatModel | undefined;
  near: readonly string[];
}

function unknownModel(id: string, { field, retired, near }: Miss): GatewayError {
  const shown = id.length > 128 ? `${id.slice(0, 128)}…` : id;
  const fault = retired
    ? `model "${shown}" was retired on ${retired.retiresOn}`
    : `model "${shown}" does not exist here`;
  const advice = near.length > 0 ? `; did you mean ${near.join(', ')}?` : '';
  const all = near.length > 0 ? `nearest: ${near.join(', ')}` : 'GET /api/v1/models lists all';
  return new GatewayError('UNKNOWN_MODEL', `${fault}${advice}`, {
    details: [{ path: field, message: all }],
  });
}
