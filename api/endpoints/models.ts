/**
 * Chat models (spec §2.5, §4.2): one response with the fields of OpenAI's, Anthropic's and older
 * clients. Without query parameters it has all models, as OpenAI's clients expect; Anthropic's
 * clients request pages.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ChatModel } from '../../catalog/chat-model.ts';
import { fieldError } from '../../domain/errors.ts';
import { received } from '../../domain/field-messages.ts';
import { time } from './fields.ts';
import { defineEndpoint, ownAnswer, section } from './endpoint.ts';

/** Anthropic's pagination; other query parameters are ignored. */
const paging = z.object({
  limit: z.coerce.number().int().min(1).max(1000).optional(),
  after_id: z.string().min(1).max(256).optional(),
  before_id: z.string().min(1).max(256).optional(),
});
type Paging = z.infer<typeof paging>;

interface Page {
  models: readonly ChatModel[];
  /** True if more models follow, or precede the page if it is read by `before_id`. */
  hasMore: boolean;
}

const modelEntry = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    type: z.literal('model'),
    display_name: z.string(),
    created_at: time,
  })
  .meta({
    id: 'Model',
    description: 'One entry with the fields of OpenAI’s and Anthropic’s APIs.',
  });
const legacyModel = z.object({
  id: z.string(),
  name: z.string(),
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
  description: z.string().optional(),
});
const modelList = z.object({
  object: z.literal('list'),
  data: z.array(modelEntry),
  has_more: z.boolean(),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  models: z.array(legacyModel),
});
const unknownModel = z.object({
  type: z.literal('error'),
  error: z.object({ type: z.literal('not_found_error'), message: z.string() }),
});

/** Endpoints on chat models. */
export const models = section('Chat', {
  listModels: defineEndpoint({
    route: 'GET /api/v1/models',
    scope: 'models:read',
    takesXApiKey: true,
    summary: 'List the chat models',
    request: { query: paging },
    answer: ownAnswer,
    answers: {
      200: { description: 'All models, or the requested page.', schema: modelList },
      304: {
        description: 'The list has not changed: its ETag matches `If-None-Match`.',
        schema: ownAnswer,
      },
    },
    errors: ['CONFLICTING_FIELDS'],
    handle({ ctx, query }, { chatCatalog }) {
      const current = chatCatalog.current();
      if (Object.values(query).some((value) => value !== undefined)) {
        ctx.body = listOf(pageOf(current, query));
        return;
      }
      const { etag, bytes } = prepare(current);
      ctx.set({ ETag: etag, 'Cache-Control': 'private, no-cache' });
      // Koa's `fresh` is false for `Cache-Control: no-cache`, which fetch adds to conditional
      // requests.
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
      if (model) return entryOf(model);
      const message = `model: ${id.slice(0, 128)}`;
      return { type: 'error', error: { type: 'not_found_error', message } } as const;
    },
  }),
});

/** Returns the list of all models as JSON, and its ETag. */
function prepare(current: readonly ChatModel[]): { bytes: Buffer; etag: string } {
  const bytes = Buffer.from(JSON.stringify(listOf({ models: current, hasMore: false })));
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 27);
  // The ETag is weak, because the compressed response has other bytes.
  return { bytes, etag: `W/"${digest}"` };
}

function matchesEtag(header: string, etag: string): boolean {
  const etags = header.split(',').map((value) => value.trim().replace(/^W\//, ''));
  return etags.includes(etag.slice(2)) || etags.includes('*');
}

/**
 * Returns the requested page, in the order of the list.
 * @throws GatewayError INVALID_REQUEST for an unknown cursor, CONFLICTING_FIELDS for two cursors
 */
function pageOf(listed: readonly ChatModel[], query: Paging): Page {
  const { after_id: afterId, before_id: beforeId, limit = listed.length } = query;
  if (afterId !== undefined && beforeId !== undefined) {
    const message = 'cannot be used together with after_id';
    throw fieldError('CONFLICTING_FIELDS', 'before_id', message);
  }
  if (beforeId !== undefined) {
    const end = positionOf(listed, 'before_id', beforeId);
    const start = Math.max(0, end - limit);
    return { models: listed.slice(start, end), hasMore: start > 0 };
  }
  const start = afterId === undefined ? 0 : positionOf(listed, 'after_id', afterId) + 1;
  return { models: listed.slice(start, start + limit), hasMore: start + limit < listed.length };
}

function positionOf(listed: readonly ChatModel[], field: string, id: string): number {
  const position = listed.findIndex((model) => model.id === id);
  if (position >= 0) return position;
  const near = received(
    id,
    listed.map((model) => model.id),
  );
  const message = `is not the id of a model in the list${near}`;
  throw fieldError('INVALID_REQUEST', field, message);
}

function listOf({ models: listed, hasMore }: Page): z.infer<typeof modelList> {
  return {
    object: 'list',
    data: listed.map(entryOf),
    has_more: hasMore,
    first_id: listed[0]?.id ?? null,
    last_id: listed.at(-1)?.id ?? null,
    models: listed.map(legacyEntryOf),
  };
}

/** Returns the fields of a model in OpenAI's and Anthropic's APIs. */
function entryOf(model: ChatModel): z.infer<typeof modelEntry> {
  return {
    id: model.id,
    object: 'model',
    created: model.created,
    owned_by: model.ownedBy,
    type: 'model',
    display_name: model.name,
    created_at: new Date(model.created * 1000).toISOString().replace('.000Z', 'Z'),
  };
}

function legacyEntryOf(model: ChatModel): z.infer<typeof legacyModel> {
  const { id, name, cost, limit, reasoning, description } = model;
  const { supportsImages, supportsVideo, supportsAudio } = model;
  return {
    id,
    name,
    cost: {
      input: cost.inputUsdPerMillion,
      output: cost.outputUsdPerMillion,
      audioInput: cost.audioInputUsdPerMillion,
      cachedInput: cost.cachedInputUsdPerMillion,
      cacheWrite: cost.cacheWriteUsdPerMillion,
    },
    limit,
    // These fields are absent instead of false (spec §2.5), because JSON omits undefined values.
    reasoning,
    supportsImages,
    supportsVideo,
    supportsAudio,
    description,
  };
}
