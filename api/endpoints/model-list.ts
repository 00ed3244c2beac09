/**
 * Formats lists of chat models. Each list has the fields that OpenAI's clients, Anthropic's clients
 * and older clients read.
 */
import { z } from 'zod';
import { getKind, type ChatModel } from '../../chat/models.ts';
import { time } from './fields.ts';

const modelKind = z.enum(['chat', 'embedding']).meta({
  description: 'Use of the model: chats, or `POST /api/v1/embeddings`.',
});
/** Schema of a model in a list. */
export const modelEntrySchema = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    type: z.literal('model'),
    kind: modelKind,
    display_name: z.string(),
    created_at: time,
  })
  .meta({
    id: 'Model',
    description: 'Model with the fields of both OpenAI’s and Anthropic’s API.',
  });
const legacyModel = z.object({
  id: z.string(),
  name: z.string(),
  kind: modelKind,
  cost: z.looseObject({
    input: z.number(),
    output: z.number(),
    audioInput: z.number().optional(),
    cachedInput: z.number().optional(),
    cacheWrite: z.number().optional(),
  }),
  limit: z.object({ context: z.int(), output: z.int() }),
  reasoning: z.literal(true).optional(),
  supportsImages: z.literal(true).optional(),
  supportsVideo: z.literal(true).optional(),
  supportsAudio: z.literal(true).optional(),
  dimensions: z.int().optional().meta({
    description: 'Length of the vectors of an embedding model, if a request does not set it.',
  }),
  description: z.string().optional(),
});
/** Schema of the list of models. */
export const modelListSchema = z.object({
  object: z.literal('list'),
  data: z.array(modelEntrySchema),
  has_more: z.boolean(),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  models: z.array(legacyModel),
});

/** Page of the list of models. */
export interface ModelPage {
  models: readonly ChatModel[];
  /** True if more models follow the page or, with `before_id`, precede it. */
  hasMore: boolean;
}

/** Formats a page of models as a list. */
export function formatModelList({ models, hasMore }: ModelPage): z.infer<typeof modelListSchema> {
  return {
    object: 'list',
    data: models.map(formatModelEntry),
    has_more: hasMore,
    first_id: models[0]?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
    models: models.map(formatLegacyEntry),
  };
}

/** Formats a model with the fields of OpenAI's and Anthropic's APIs. */
export function formatModelEntry(model: ChatModel): z.infer<typeof modelEntrySchema> {
  return {
    id: model.id,
    object: 'model',
    created: model.created,
    owned_by: model.ownedBy,
    type: 'model',
    kind: getKind(model),
    display_name: model.name,
    created_at: new Date(model.created * 1000).toISOString().replace('.000Z', 'Z'),
  };
}

/** Formats a model for older clients, which read `models` instead of `data`. */
function formatLegacyEntry(model: ChatModel): z.infer<typeof legacyModel> {
  const { id, name, cost, limit, reasoning, description } = model;
  const { supportsImages, supportsVideo, supportsAudio } = model;
  return {
    id,
    name,
    kind: getKind(model),
    cost: {
      input: cost.inputUsdPerMillion,
      output: cost.outputUsdPerMillion,
      audioInput: cost.audioInputUsdPerMillion,
      cachedInput: cost.cachedInputUsdPerMillion,
      cacheWrite: cost.cacheWriteUsdPerMillion,
    },
    limit,
    // Undefined fields are omitted from the JSON. Spec §2.5 requires that they are missing instead
    // of false.
    reasoning,
    supportsImages,
    supportsVideo,
    supportsAudio,
    dimensions: model.embedding?.dimensions,
    description,
  };
}
