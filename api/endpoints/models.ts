/**
 * Endpoints for chat models (spec §2.5, §4.2). A list contains the fields that OpenAI's clients,
 * Anthropic's clients and older clients of the gateway expect. Without query parameters it contains
 * all models, as OpenAI's clients expect; Anthropic's clients request pages.
 */
import { z } from 'zod';
import { getKind } from '../../chat/models.ts';
import {
  formatModelEntry,
  formatModelList,
  modelEntrySchema,
  modelListSchema,
} from './model-list.ts';
import { selectPage, pagingSchema } from './model-pages.ts';
import { describeConstant } from '../http/constants.ts';
import { defineEndpoint, rawResponse, defineSection } from './endpoint.ts';

const unknownModelError = z.object({
  type: z.literal('error'),
  error: z.object({ type: z.literal('not_found_error'), message: z.string() }),
});

/** Endpoints that list and get chat models. */
export const models = defineSection('Chat', {
  listModels: defineEndpoint({
    route: 'GET /api/v1/models',
    scope: 'models:read',
    acceptsXApiKey: true,
    summary: 'List the chat models',
    description:
      'The list has the models that a chat can use; `kind=embedding` lists those of `POST /api/v1/embeddings`.',
    request: {
      query: pagingSchema.extend({ kind: modelEntrySchema.shape.kind.default('chat') }),
    },
    answer: rawResponse,
    answers: describeConstant(modelListSchema),
    errors: ['CONFLICTING_FIELDS'],
    async handle({ ctx, query: { kind, ...query } }, { chatCatalog, constants }) {
      const allModels = chatCatalog.listCurrent().filter((model) => getKind(model) === kind);
      if (Object.values(query).some((value) => value !== undefined)) {
        ctx.body = formatModelList(selectPage(allModels, query));
        return;
      }
      ctx.set('Cache-Control', 'private, no-cache');
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
    acceptsXApiKey: true,
    summary: 'Get a chat model',
    description: 'The id may contain slashes, plain or URL-encoded.',
    request: { params: z.object({ id: z.string() }) },
    answer: z.union([modelEntrySchema, unknownModelError]),
    answers: {
      200: { description: 'The model.', schema: modelEntrySchema },
      404: { description: 'No such model.', schema: unknownModelError },
    },
    handle({ ctx, params: { id } }, { chatCatalog }) {
      const model = chatCatalog.get(id);
      ctx.status = model ? 200 : 404;
      if (model) return formatModelEntry(model);
      const message = `model: ${id.slice(0, 128)}`;
      return { type: 'error', error: { type: 'not_found_error', message } } as const;
    },
  }),
});
