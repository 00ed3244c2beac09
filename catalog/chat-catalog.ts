/**
 * Chat models of a gateway: the committed catalog (chat-models.json, which dev/catalog generates),
 * the operator's own models and prices, and lookups in both.
 */
import { z } from 'zod';
import { GatewayError } from '../domain/errors.ts';
import { chatModelSchema, isRetired, type ChatCost, type ChatModel } from './chat-model.ts';
import committed from './chat-models.json' with { type: 'json' };
import { imageModels } from './image-models.ts';
import { videoModels } from './video-models.ts';
import { vendorNames } from './vendor-names.ts';
import { createNearest } from '../domain/field-messages.ts';

/** Models of the committed catalog; some may have been retired since the catalog was generated. */
export const chatModels: readonly ChatModel[] = z.array(chatModelSchema).parse(committed.models);

/** Schema of an operator's models file. */
export const chatModelsFile = z.strictObject({
  /**
   * Models that are added or replace the committed model with the same id; the markup does not
   * apply to their prices.
   */
  models: z
    .array(chatModelSchema)
    .refine((rows) => new Set(rows.map((row) => row.id)).size === rows.length, 'ids must be unique')
    .default([]),
  /** Ids of models that are removed; `provider/*` removes all models of a provider. */
  disable: z.array(z.string()).default([]),
});

/** Changes of an operator to the committed catalog. */
export type ChatOverlay = z.infer<typeof chatModelsFile> & {
  /** Markup on the committed prices; 0.2 adds 20 %. */
  priceMarkup: number;
};

/** Returns the models of a gateway: `base` with the operator's changes. */
export function configureChatModels(
  base: readonly ChatModel[],
  { models, disable, priceMarkup }: ChatOverlay,
): ChatModel[] {
  const ownIds = new Set(models.map((model) => model.id));
  const disabled = new Set(disable);
  const committedModels = base
    .filter((model) => !ownIds.has(model.id))
    .map((model) => ({ ...model, cost: markedUp(model.cost, priceMarkup) }));
  return [...committedModels, ...models].filter(
    (model) => !disabled.has(model.id) && !disabled.has(`${model.provider}/*`),
  );
}

type TokenPrice = Omit<ChatCost, 'longInput' | 'audioInputUsdPerMillion'>;

function markedUp(cost: ChatCost, markup: number): ChatCost {
  // Prices are rounded to a millionth of a dollar, so that no binary rounding error appears in a
  // price list.
  const withMarkup = (usd: number): number => Number((usd * (1 + markup)).toFixed(6));
  const { longInput, audioInputUsdPerMillion: audio, ...price } = cost;
  const ofTokens = (from: TokenPrice): TokenPrice => {
    const { cachedInputUsdPerMillion: cached, cacheWriteUsdPerMillion: write } = from;
    return {
      inputUsdPerMillion: withMarkup(from.inputUsdPerMillion),
      outputUsdPerMillion: withMarkup(from.outputUsdPerMillion),
      ...(cached !== undefined && { cachedInputUsdPerMillion: withMarkup(cached) }),
      ...(write !== undefined && { cacheWriteUsdPerMillion: withMarkup(write) }),
    };
  };
  return {
    ...ofTokens(price),
    ...(audio !== undefined && { audioInputUsdPerMillion: withMarkup(audio) }),
    ...(longInput && {
      longInput: { inputTokensAbove: longInput.inputTokensAbove, ...ofTokens(longInput) },
    }),
  };
}

/**
 * Makes the lookup of the models that are not retired. `now` returns the current time in Unix
 * milliseconds.
 */
export function createChatCatalog(models: readonly ChatModel[], now: () => number = Date.now) {
  const ordered = models.toSorted((a, b) => b.created - a.created || (a.id < b.id ? -1 : 1));
  const byId = new Map([
    ...ordered.flatMap((model) => longIdsOf(model).map((id) => [id, model] as const)),
    ...ordered.map((model) => [model.id, model] as const),
  ]);
  /** Returns all models that are not retired, newest first. */
  const current = (): readonly ChatModel[] => ordered.filter((model) => !isRetired(model, now()));

  /**
   * Returns the model with an id, with or without the provider's or maker's name (`openai/gpt-5`);
   * null if there is none or it is retired.
   */
  function get(id: string): ChatModel | null {
    const model = byId.get(id);
    return model && !isRetired(model, now()) ? model : null;
  }

  /**
   * Returns the model that a caller names. `field` is the request field, for the error.
   * @throws GatewayError UNKNOWN_MODEL with the most similar ids
   */
  function find(id: string, field = 'model'): ChatModel {
    const model = get(id);
    if (model) return model;
    const near = createNearest(current().map((each) => each.id))(id);
    throw unknownModel(id, { field, retired: byId.get(id), near });
  }

  return { current, get, find };
}

/**
 * Returns the ids of a model with the name of its provider or maker, as other gateways use them.
 */
function longIdsOf({ id, provider, ownedBy }: ChatModel): string[] {
  return id.includes('/') ? [] : [`${provider}/${id}`, `${ownedBy}/${id}`];
}

/** Data of the error for an unknown or retired model. */
interface Miss {
  field: string;
  retired: ChatModel | undefined;
  near: readonly string[];
}

/** Returns the endpoint of a Studio model; null if the id is not that of a Studio model. */
function studioEndpointOf(id: string): string | null {
  const own = Object.hasOwn(vendorNames, id) ? vendorNames[id] : id;
  const isListed = (rows: readonly { id: string }[]): boolean => rows.some((row) => row.id === own);
  if (isListed(imageModels)) return 'POST /api/v1/studio/image/generate';
  return isListed(videoModels) ? 'POST /api/v1/studio/video/generate' : null;
}

function unknownModel(id: string, { field, retired, near }: Miss): GatewayError {
  const shownId = id.length > 128 ? `${id.slice(0, 128)}…` : id;
  const endpoint = studioEndpointOf(id);
  if (endpoint) {
    const detail = `is not a chat model; use ${endpoint}`;
    const message = `model "${shownId}" ${detail}`;
    return new GatewayError('UNKNOWN_MODEL', message, {
      details: [{ path: field, message: detail }],
    });
  }
  const reason = retired
    ? `model "${shownId}" was retired on ${retired.retiresOn}`
    : `model "${shownId}" does not exist here`;
  const advice = near.length > 0 ? `; did you mean ${near.join(', ')}?` : '';
  const detail = near.length > 0 ? `nearest: ${near.join(', ')}` : 'GET /api/v1/models lists all';
  return new GatewayError('UNKNOWN_MODEL', `${reason}${advice}`, {
    details: [{ path: field, message: detail }],
  });
}
