/**
 * Endpoints for chat models (spec §2.5, §4.2). The response has the fields that OpenAI's,
 * Anthropic's and older clients expect. Without query parameters it lists all models, for OpenAI's
 * clients; Anthropic's clients request pages.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ChatModel } from '../../catalog/chat-model.ts';
import { formatModelEntry, formatModelList, modelEntry, modelList } from '../chat/model-list.ts';
import { selectPage, paging } from '../chat/model-pages.ts';
import { defineEndpoint, rawResponse, section } from './endpoint.ts';

const unknownModel = z.object({
  type: z.literal('error'),
  error: z.object({ type: z.literal('not_found_error'), message: z.string() }),
});

/** Endpoints that list and get chat models. */
export const models = section('Chat', {
  listModels: defineEndpoint({
    route: 'GET /api/v1/models',
    scope: 'models:read',
    takesXApiKey: true,
    summary: 'List the chat models',
    request: { query: paging },
    answer: rawResponse,
    answers: {
      200: { description: 'All models, or the requested page.', schema: modelList },
      304: {
        description: 'The list has not changed: its ETag matches `If-None-Match`.',
        schema: rawResponse,
      },
    },
    errors: ['CONFLICTING_FIELDS'],
    handle({ ctx, query }, { chatCatalog }) {
      const current = chatCatalog.listCurrent();
      if (Object.values(query).some((value) => value !== undefined)) {
        ctx.body = formatModelList(selectPage(current, query));
        return;
      }
      const { etag, bytes } = serializeList(current);
      ctx.set({ ETag: etag, 'Cache-Control': 'private, no-cache' });
      // Koa's `ctx.fresh` is always false for requests with `Cache-Control: no-cache`, which
      // `fetch` adds to conditional requests.
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
    takesXApiKey: true,
    summary: 'Get a chat model',
    description: 'The id may contain slashes, plain or URL-encoded.',
    request: { params: z.object({ id: z.string() }) },
    answer: z.union([modelEntry, unknownModel]),
    answers: {
      200: { description: 'The model.', schema: modelEntry },
      404: { description: 'No such model.', schema: unknownModel },
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

/** Serializes the list of all models and calculates its ETag. */
function serializeList(current: readonly ChatModel[]): { bytes: Buffer; etag: string } {
  const bytes = Buffer.from(JSON.stringify(formatModelList({ models: current, hasMore: false })));
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 27);
  // The ETag is weak, because the compressed response has different bytes.
  return { bytes, etag: `W/"${digest}"` };
}

function matchesEtag(header: string, etag: string): boolean {
  const etags = header.split(',').map((value) => value.trim().replace(/^W\//, ''));
  return etags.includes(etag.slice(2)) || etags.includes('*');
}
