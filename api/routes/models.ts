/**
 * The chat models (spec §2.5, §4.2): one answer that OpenAI's, Anthropic's and older clients each find
 * their own fields in. Everything at once by default, as OpenAI's clients expect; Anthropic's ask for
 * pages.
 */
import { createHash } from 'node:crypto';
import type Router from '@koa/router';
import { z } from 'zod';
import type { ChatCatalog, ChatModel } from '../../catalog/chat-catalog.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { RequestState } from '../context.ts';
import { authorize } from '../middleware/authenticate.ts';
import { parseWith } from '../middleware/body.ts';

/** Anthropic's pagination; whatever else a client sends is none of our business. */
export const paging = z.object({
  limit: z.coerce.number().int().min(1).max(1000).optional(),
  after_id: z.string().min(1).max(256).optional(),
  before_id: z.string().min(1).max(256).optional(),
});
type Paging = z.infer<typeof paging>;

interface Page {
  models: readonly ChatModel[];
  /** More in the direction of reading. */
  hasMore: boolean;
}

/** An answer that is the same for everyone until a model retires. */
interface Prepared {
  source: readonly ChatModel[];
  bytes: Buffer;
  etag: string;
}

/** Adds the two routes. */
export function addModelRoutes(router: Router<RequestState>, catalog: ChatCatalog): void {
  let prepared = prepare(catalog.current());

  router.get('/models', (ctx) => {
    authorize(ctx.state.caller, 'models:read');
    const query = parseWith(paging, ctx.query);
    const models = catalog.current();
    if (Object.values(query).some((value) => value !== undefined)) {
      ctx.body = listOf(pageOf(models, query));
      return;
    }
    if (prepared.source !== models) prepared = prepare(models);
    ctx.set({ ETag: prepared.etag, 'Cache-Control': 'private, no-cache' });
    // Koa's own check gives up on `Cache-Control: no-cache`, which fetch adds to such requests.
    if (holdsEtag(ctx.get('if-none-match'), prepared.etag)) {
      ctx.status = 304;
      return;
    }
    ctx.type = 'json';
    ctx.body = prepared.bytes;
  });

  // An id may hold slashes, as they are or encoded.
  router.get('/models/*id', (ctx) => {
    authorize(ctx.state.caller, 'models:read');
    const id = String(ctx.params['id']);
    const model = catalog.get(id);
    if (model) {
      ctx.body = entryOf(model);
      return;
    }
    const message = `model: ${id.slice(0, 128)}`;
    ctx.status = 404;
    ctx.body = { type: 'error', error: { type: 'not_found_error', message } };
  });
}

function prepare(models: readonly ChatModel[]): Prepared {
  const bytes = Buffer.from(JSON.stringify(listOf({ models, hasMore: false })));
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 27);
  return { source: models, bytes, etag: `"${digest}"` };
}

function holdsEtag(header: string, etag: string): boolean {
  const known = header.split(',').map((value) => value.trim().replace(/^W\//, ''));
  return known.includes(etag) || known.includes('*');
}

/**
 * The page a client asks for, in the order of the whole list.
 * @throws GatewayError INVALID_REQUEST for an unknown cursor, CONFLICTING_FIELDS for two
 */
function pageOf(models: readonly ChatModel[], query: Paging): Page {
  const { after_id: afterId, before_id: beforeId, limit = models.length } = query;
  if (afterId !== undefined && beforeId !== undefined) {
    const message = 'cannot be used together with after_id';
    throw new GatewayError('CONFLICTING_FIELDS', `before_id: ${message}`, {
      details: [{ path: 'before_id', message }],
    });
  }
  if (beforeId !== undefined) {
    const end = positionOf(models, 'before_id', beforeId);
    const start = Math.max(0, end - limit);
    return { models: models.slice(start, end), hasMore: start > 0 };
  }
  const start = afterId === undefined ? 0 : positionOf(models, 'after_id', afterId) + 1;
  return { models: models.slice(start, start + limit), hasMore: start + limit < models.length };
}

function positionOf(models: readonly ChatModel[], field: string, id: string): number {
  const position = models.findIndex((model) => model.id === id);
  if (position >= 0) return position;
  const message = 'is not the id of a model in the list';
  throw new GatewayError('INVALID_REQUEST', `${field}: ${message}`, {
    details: [{ path: field, message }],
  });
}

function listOf({ models, hasMore }: Page): Record<string, unknown> {
  return {
    object: 'list',
    data: models.map(entryOf),
    has_more: hasMore,
    first_id: models[0]?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
    models: models.map(legacyEntryOf),
  };
}

/** OpenAI's and Anthropic's fields of a model. */
function entryOf(model: ChatModel): Record<string, unknown> {
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

function legacyEntryOf(model: ChatModel): Record<string, unknown> {
  const { id, name, cost, limit, reasoning, description } = model;
  const { supportsImages, supportsVideo, supportsAudio } = model;
  return {
    id,
    name,
    cost: { input: cost.inputUsdPerMillion, output: cost.outputUsdPerMillion },
    limit,
    // Absent rather than false (spec §2.5): JSON leaves out what is undefined.
    reasoning,
    supportsImages,
    supportsVideo,
    supportsAudio,
    description,
  };
}
