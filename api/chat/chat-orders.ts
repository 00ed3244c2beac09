/** Orders of chats: the models that a request names, checked against the request and the key. */
import type { ChatEstimate, ChatOrder } from '../../activities/chat.ts';
import { leastTokens } from '../../chat/input-count.ts';
import type { ChatModel } from '../../catalog/chat-model.ts';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { received } from '../../domain/field-messages.ts';
import type { Composition } from '../composition.ts';
import { authorizeModel } from '../middleware/authenticate.ts';
import type { ChatCall, ChatRequest } from './chat-request.ts';
import { checkParts } from './part-checks.ts';
import { signUploads } from './uploaded-pictures.ts';

type Services = Pick<Composition, 'chat' | 'chatCatalog' | 'outbound' | 'inputs' | 'storage'>;
type Candidates = ChatOrder['models'];

/**
 * Estimates the price of a chat.
 * @throws GatewayError errors that reject the chat before it reserves
 */
export async function estimateChat(call: ChatCall, services: Services): Promise<ChatEstimate> {
  const models = checkModels(call, services);
  return services.chat.estimate(orderOf(await signUploads(call, services), models));
}

/**
 * Returns the models of a request, each once, after checking that the key may use them.
 * @throws GatewayError UNKNOWN_MODEL, FORBIDDEN, and the errors of a request that a model rejects
 */
export function checkModels(
  { ctx, body: request }: ChatCall,
  { chatCatalog: catalog, outbound }: Pick<Services, 'chatCatalog' | 'outbound'>,
): Candidates {
  const { model, fallbacks = [], body } = request;
  // Items and blocks that a model does not need are dropped, and may be all that was sent.
  if (body.messages.length === 0) {
    throw fieldError('INVALID_REQUEST', 'messages', 'must contain at least one message');
  }
  const first = catalog.find(model);
  const others = fallbacks.map((id, index) => catalog.find(id, `models.${index}`));
  const models = [first, ...new Set(others.filter(({ id }) => id !== first.id))] as const;
  for (const each of models) {
    checkParts(request, each, outbound);
    authorizeModel(ctx.state.caller, each.id);
    refuseTooManyTokens(request, each);
    refuseTooLongInput(request, each);
  }
  return models;
}

/**
 * Rejects a `max_tokens` above the limit of the model, because the model would end the answer
 * earlier than requested.
 */
function refuseTooManyTokens({ maxTokens }: ChatRequest, { id, limit }: ChatModel): void {
  if (maxTokens === null || maxTokens <= limit.output) return;
  const message = `must be at most ${limit.output} with ${id}${received(maxTokens)}`;
  throw fieldError('INVALID_REQUEST', 'max_tokens', message);
}

/**
 * Rejects an input that certainly exceeds the context of the model. The message contains the
 * phrases by which clients recognize this error.
 */
function refuseTooLongInput({ body }: ChatRequest, { id, limit }: ChatModel): void {
  const least = leastTokens(body, limit.context);
  if (least <= limit.context) return;
  const size = `it has more than ${limit.context} tokens`;
  const message = `The prompt is too long: ${size}, the maximum context length of ${id}.`;
  const details = [{ path: 'messages', message: `must have at most ${limit.context} tokens` }];
  throw new GatewayError('CONTEXT_LENGTH_EXCEEDED', message, { details });
}

/** Makes the order of a request. */
export function orderOf({ ctx, body: request }: ChatCall, models: Candidates): ChatOrder {
  const { caller, requestId } = ctx.state;
  const { organizationId, keyId } = caller;
  return { ...request, organizationId, keyId, requestId, models };
}
