/** Selects pages of the list of chat models with Anthropic's pagination parameters. */
import { z } from 'zod';
import type { ChatModel } from '../../chat/models.ts';
import { fieldError } from '../../domain/errors.ts';
import { formatReceived } from '../../domain/field-messages.ts';
import type { ModelPage } from './model-list.ts';

/** Schema of Anthropic's pagination parameters. Other query parameters are ignored. */
export const pagingSchema = z.object({
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
export function selectPage(listed: readonly ChatModel[], query: Paging): ModelPage {
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
