/** Checks that models support a chat request, and builds its `ChatOrder`. */
import type { ChatEstimate, ChatOrder } from '../activities/chat.ts';
import { countMinimumTokens } from './input-count.ts';
import type { ChatModel } from './model.ts';
import { fieldError, GatewayError } from '../domain/errors.ts';
import { formatReceived } from '../domain/field-messages.ts';
import type { Composition } from '../api/composition.ts';
import { authorizeModel } from '../api/middleware/authenticate.ts';
import type { ChatCall, ChatRequest } from './formats/chat-request.ts';
import { checkEmbedding } from './formats/embeddings.ts';
import { checkParts, readMedia, signUploads } from './formats/media-parts.ts';

type Services = Pick<Composition, 'chat' | 'chatCatalog' | 'outbound' | 'inputs' | 'storage'>;
type ModelsToTry = ChatOrder['models'];

/**
 * Estimates the price of a chat.
 * @throws GatewayError any error that the chat itself could raise before it reserves credits
 */
export async function estimateChat(call: ChatCall, services: Services): Promise<ChatEstimate> {
  const models = checkModels(call, services);
  return services.chat.estimate(buildOrder(await signUploads(call, services), models));
}

/**
 * Returns the models of a request, without duplicates. Checks that each model supports the request
 * and that the API key may use it.
 * @throws GatewayError UNKNOWN_MODEL, FORBIDDEN, or the error for a feature that a model does not
 * support
 */
export function checkModels(
  { ctx, body: request }: ChatCall,
  { chatCatalog: catalog, outbound }: Pick<Services, 'chatCatalog' | 'outbound'>,
): ModelsToTry {
  const { model, fallbacks = [], body } = request;
  const { embedding } = body;
  // `messages` is also empty if the gateway dropped all items or blocks of the request.
  if (body.messages.length === 0 && !embedding) {
    throw fieldError('INVALID_REQUEST', 'messages', 'must contain at least one message');
  }
  const firstModel = catalog.find(model, { kind: embedding ? 'embedding' : 'chat' });
  const others = fallbacks.map((id, index) => catalog.find(id, { field: `models.${index}` }));
  readMedia(body);
  const models = [firstModel, ...new Set(others.filter(({ id }) => id !== firstModel.id))] as const;
  for (const candidate of models) {
    checkParts(request, candidate, outbound);
    authorizeModel(ctx.state.caller, candidate.id);
    checkMaxTokens(request, candidate);
    if (embedding) checkEmbedding(embedding, candidate);
    else checkInputLength(request, candidate);
  }
  return models;
}

/** Throws if `max_tokens` exceeds the model's output limit, which no answer can exceed. */
function checkMaxTokens({ maxTokens }: ChatRequest, { id, limit }: ChatModel): void {
  if (maxTokens === null || maxTokens <= limit.output) return;
  const message = `must be at most ${limit.output} with ${id}${formatReceived(maxTokens)}`;
  throw fieldError('INVALID_REQUEST', 'max_tokens', message);
}

/**
 * Throws if the input certainly exceeds the model's context length. Clients recognize this error by
 * the phrases "prompt is too long" and "maximum context length".
 */
function checkInputLength({ body }: ChatRequest, { id, limit }: ChatModel): void {
  const texts = body.messages.flatMap((message) => {
    const parts = message.role === 'assistant' ? message.blocks : message.content;
    if (typeof parts === 'string') return [parts];
    return parts.map((part) => (part.type === 'text' ? part.text : ''));
  });
  const tokens = countMinimumTokens(texts, limit.context);
  if (tokens <= limit.context) return;
  const size = `it has more than ${limit.context} tokens`;
  const message = `The prompt is too long: ${size}, the maximum context length of ${id}.`;
  const details = [{ path: 'messages', message: `must have at most ${limit.context} tokens` }];
  throw new GatewayError('CONTEXT_LENGTH_EXCEEDED', message, { details });
}

/** Builds the `ChatOrder` of a request from its fields, its caller and its models. */
export function buildOrder({ ctx, body: request }: ChatCall, models: ModelsToTry): ChatOrder {
  const { caller, requestId } = ctx.state;
  const { organizationId, keyId } = caller;
  return { ...request, organizationId, keyId, requestId, models };
}
