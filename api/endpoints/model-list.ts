/** GET /api/v1/models: the chat models, in pages that clients of OpenAI and Anthropic can read. */
import { z } from 'zod';
import { type ChatCatalog, type ChatModel, getKind } from '../../chat/models.ts';
import { errorFormatters, errorSchemas } from '../../domain/error-bodies.ts';
import { fieldError } from '../../domain/errors.ts';
import { formatReceived } from '../../domain/field-messages.ts';
import type { Context } from '../context.ts';
import { formatModelEntry, listPriceOf, modelEntrySchema, modelKind } from './model-entry.ts';
import { describeConstant } from '../http/constants.ts';
import { defineEndpoint, rawResponse, defineSection } from './endpoint.ts';

/** Schema of Anthropic's pagination parameters. Other query parameters are ignored. */
const pagingSchema = z.object({
  limit: z.coerce.number().int().min(1).max(1000).optional(),
  after_id: z.string().min(1).max(256).optional(),
  before_id: z.string().min(1).max(256).optional(),
});
type Paging = z.infer<typeof pagingSchema>;

/**
 * Returns the requested page, in the order of the list.
 * @throws GatewayError INVALID_REQUEST for an unknown model id, CONFLICTING_FIELDS if the query has
 * both `after_id` and `before_id`
 */
function selectPage(listed: readonly ChatModel[], query: Paging): ModelPage {
  const { after_id: afterId, before_id: beforeId, limit = listed.length } = query;
  if (afterId !== undefined && beforeId !== undefined) {
    const message = 'cannot be used together with after_id';
    throw fieldError('CONFLICTING_FIELDS', 'before_id', message);
  }
  if (beforeId !== undefined) {
    const end = findPosition(listed, 'before_id', beforeId);
    const start = Math.max(0, end - limit);
    return { models: listed.slice(start, end), hasMore: start > 0 };
  }
  const start = afterId === undefined ? 0 : findPosition(listed, 'after_id', afterId) + 1;
  return { models: listed.slice(start, start + limit), hasMore: start + limit < listed.length };
}

function findPosition(listed: readonly ChatModel[], field: string, id: string): number {
  const position = listed.findIndex((model) => model.id === id);
  if (position >= 0) return position;
  const near = formatReceived(
    id,
    listed.map((model) => model.id),
  );
  const message = `is not the id of a model in the list${near}`;
  throw fieldError('INVALID_REQUEST', field, message);
}

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
    longInput: z
      .object({ inputTokensAbove: z.int(), input: z.number(), output: z.number() })
      .optional(),
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
function formatModelList({ models, hasMore }: ModelPage): z.infer<typeof modelListSchema> {
  return {
    object: 'list',
    data: models.map(formatModelEntry),
    has_more: hasMore,
    first_id: models[0]?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
    models: models.map(formatLegacyEntry),
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
      longInput: cost.longInput && {
        inputTokensAbove: cost.longInput.inputTokensAbove,
        input: cost.longInput.inputUsdPerMillion,
        output: cost.longInput.outputUsdPerMillion,
      },
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

const unknownModelError = z.object({
  type: z.literal('error'),
  error: z.object({ type: z.literal('not_found_error'), message: z.string() }),
});

/** Formats the error for an unknown model: as the specification (§4.2), or as the SDK reads it. */
function formatUnknownModel(
  { state: { errorFormat, requestId } }: Context,
  chatCatalog: ChatCatalog,
  id: string,
): object {
  if (errorFormat) {
    return errorFormatters[errorFormat](chatCatalog.createUnknownError(id), requestId);
  }
  const message = `model: ${id.slice(0, 128)}`;
  return { type: 'error', error: { type: 'not_found_error', message } };
}

/** Endpoints that list and get chat models. */
export const models = defineSection('Chat', {
  listModels: defineEndpoint({
    route: 'GET /api/v1/models',
    scope: 'models:read',
    allowsTokens: true,
    acceptsXApiKey: true,
    summary: 'List the chat models with the caller’s prices',
    description:
      'The list has the models that a chat can use; `kind=embedding` lists those of `POST /api/v1/embeddings`.',
    request: {
      query: pagingSchema.extend({
        kind: modelKind.default('chat'),
        client_version: z.string().max(64).optional().meta({
          description:
            'Sent by Codex, which then expects entries of its own format. The list is empty, so that Codex uses its own.',
        }),
      }),
    },
    response: rawResponse,
    responses: describeConstant(modelListSchema),
    errors: ['CONFLICTING_FIELDS'],
    async handle(
      { ctx, caller, query: { kind, client_version: codexVersion, ...query } },
      services,
    ) {
      const { chatCatalog, constants, priceBook } = services;
      if (codexVersion !== undefined) {
        // An entry in Codex's format replaces its instructions for the model.
        ctx.body = formatModelList({ models: [], hasMore: false });
        return;
      }
      const prices = await priceBook.at(caller.organizationId);
      const allModels = chatCatalog
        .listCurrent()
        .filter((model) => getKind(model) === kind)
        .map(listPriceOf(prices));
      if (Object.values(query).some((value) => value !== undefined)) {
        ctx.body = formatModelList(selectPage(allModels, query));
        return;
      }
      ctx.set('Cache-Control', 'private, no-cache');
      if (prices.name !== '') {
        // A list with prices of the price book is that of few callers.
        ctx.body = formatModelList({ models: allModels, hasMore: false });
        return;
      }
      // Models retire while a process runs; none are added.
      const name = `${kind} models ${allModels.length}`;
      await constants.send(ctx, { name, type: 'application/json' }, () =>
        JSON.stringify(formatModelList({ models: allModels, hasMore: false })),
      );
    },
  }),

  getModel: defineEndpoint({
    route: 'GET /api/v1/models/*id',
    scope: 'models:read',
    allowsTokens: true,
    acceptsXApiKey: true,
    summary: 'Get a chat model',
    description: 'The id may contain slashes, plain or URL-encoded.',
    request: { params: z.object({ id: z.string() }) },
    response: rawResponse,
    responses: {
      200: { description: 'The model.', schema: modelEntrySchema },
      404: {
        description: 'No such model. Below `/v1`, the error has the format of the SDK that asks.',
        schema: z.union([errorSchemas.openai, errorSchemas.anthropic, unknownModelError]),
      },
    },
    async handle({ ctx, caller, params: { id } }, { chatCatalog, priceBook }) {
      const model = chatCatalog.get(id);
      ctx.status = model ? 200 : 404;
      const prices = await priceBook.at(caller.organizationId);
      ctx.body = model
        ? formatModelEntry(listPriceOf(prices)(model))
        : formatUnknownModel(ctx, chatCatalog, id);
    },
  }),
});
