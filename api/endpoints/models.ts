/**
 * Endpoints for chat models (spec §2.5, §4.2). A list contains the fields that OpenAI's clients,
 * Anthropic's clients and older clients of the gateway expect. Without query parameters it contains
 * all models, as OpenAI's clients expect; Anthropic's clients request pages.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { type ChatModel, getKind } from '../../chat/models.ts';
import {
  formatModelEntry,
  formatModelList,
  modelEntrySchema,
  modelListSchema,
} from './model-list.ts';
import { selectPage, pagingSchema } from './model-pages.ts';
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
    answers: {
      200: { description: 'All chat models, or the requested page.', schema: modelListSchema },
      304: {
        description: 'The list has not changed: its ETag matches `If-None-Match`.',
        schema: rawResponse,
      },
    },
    errors: ['CONFLICTING_FIELDS'],
    handle({ ctx, query: { kind, ...query } }, { chatCatalog }) {
      const allModels = chatCatalog.listCurrent().filter((model) => getKind(model) === kind);
      if (Object.values(query).some((value) => value !== undefined)) {
        ctx.body = formatModelList(selectPage(allModels, query));
        return;
      }
      const { etag, bytes } = serializeModels(allModels);
      ctx.set({ ETag: etag, 'Cache-Control': 'private, no-cache' });
      // The ETag is not compared by Koa's `ctx.fresh`, which is always false for requests with
      // `Cache-Control: no-cache`. `fetch` adds that header to conditional requests.
      if (matchesEtag(ctx.get('if-none-match'), etag)) {
        ctx.status = 304;
        return;
      }
      ctx.type = 'json';
      ctx.body = bytes;
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

/** Serializes a list of all models and calculates its ETag. */
function serializeModels(allModels: readonly ChatModel[]): { bytes: Buffer; etag: string } {
  const bytes = Buffer.from(JSON.stringify(formatModelList({ models: allModels, hasMore: false })));
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 27);
  // The ETag is weak, because the compressed response has different bytes.
  return { bytes, etag: `W/"${digest}"` };
}

function matchesEtag(header: string, etag: string): boolean {
  const etags = header.split(',').map((value) => value.trim().replace(/^W\//, ''));
  return etags.includes(etag.slice(2)) || etags.includes('*');
}
