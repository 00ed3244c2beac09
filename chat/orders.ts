/** Checks that models support a chat request, and builds its `ChatOrder`. */
import { fieldError, GatewayError } from '../domain/errors.ts';
import { formatReceived } from '../domain/field-messages.ts';
import { authorizeModel, type Caller, type RequestCaller } from '../identity/access.ts';
import type { Outbound } from '../platform/outbound.ts';
import type { Inputs } from '../storage/inputs/inputs.ts';
import type { Storage } from '../storage/storage.ts';
import { joinResults, type ChatBody } from './chat-body.ts';
import type { ChatCatalog, ChatModel, PricedModel } from './models.ts';
import type { PriceBook, Prices } from '../ledger/price-book.ts';
import type { ChatRequest, IncomingChat } from './formats/chat-fields.ts';
import { checkEmbedding } from './formats/embeddings-request.ts';
import { checkParts, readMedia, signUploads } from './formats/media-parts.ts';
import { countMinimumTokens } from './input-count.ts';
import { describeLongPrompt } from './upstream-failures.ts';

/** Chat request of a caller. */
export interface ChatOrder {
  organizationId: string;
  keyId: string;
  /** Browser token of the request; undefined if it had an API key. */
  tokenId?: string | undefined;
  requestId: string;
  /** Models in the order in which they are called. */
  models: readonly [PricedModel, ...PricedModel[]];
  body: ChatBody;
  /** Maximum number of tokens of an answer; null if only model and balance limit it. */
  maxTokens: number | null;
  stream: boolean;
  /** The caller's metadata; null if there is none. */
  metadata: Record<string, string> | null;
}

/** Estimated price of a chat, in micro-credits. */
export interface ChatEstimate {
  /** Amount that a chat request would reserve at the time of the estimate. */
  reserveMicro: number;
  /** Minimum of available micro-credits; with less, the chat is rejected. */
  reserveMinMicro: number;
  /** Maximum charge for the chat, in micro-credits. */
  chargeMaxMicro: number;
  /** Parts of the maximum charge: the input tokens and the output tokens, with their amounts. */
  parts: { unit: 'input token' | 'output token'; tokens: number; amountMicro: number }[];
}

/** Services that check a request. */
interface Services {
  chatCatalog: ChatCatalog;
  outbound: Outbound;
  inputs: Inputs;
  storage: Storage;
  priceBook: PriceBook;
}

/**
 * Returns the models of a request with their prices of a time, by default now, without duplicates. The prices are read here only:
 * whatever is done with the order later has the same. Checks that each model supports the request
 * and that the API key may use it.
 * @throws GatewayError UNKNOWN_MODEL, FORBIDDEN, or the error for a feature that a model does not
 * support
 */
export async function checkModels(
  { caller, request }: IncomingChat<RequestCaller>,
  { chatCatalog: catalog, outbound, priceBook }: Services,
  pricedAtMs?: number,
): Promise<ChatOrder['models']> {
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
    authorizeModel(caller, candidate.id);
    checkMaxTokens(request, candidate);
    if (embedding) checkEmbedding(embedding, candidate);
    else checkInputLength(request, candidate);
  }
  const prices = await priceBook.at(caller.organizationId, pricedAtMs);
  const [first, ...rest] = models;
  return [setPrice(first, prices), ...rest.map((candidate) => setPrice(candidate, prices))];
}

/** Returns a model with its price. Chats and embeddings are priced by tokens. */
export const setPrice = (model: ChatModel, prices: Prices): PricedModel => ({
  ...model,
  book: prices.find({ model: model.id, use: 'chat' }, 'token'),
});

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
  const counts = { sent: tokens, max: limit.context };
  const message = `${describeLongPrompt(counts, true)} The maximum context length of ${id} is ${limit.context} tokens.`;
  const details = [{ path: 'messages', message: `must have at most ${limit.context} tokens` }];
  throw new GatewayError('CONTEXT_LENGTH_EXCEEDED', message, { details });
}

/** Checks a chat request (`checkModels`), and builds its order. */
export async function buildOrder(chat: IncomingChat, services: Services): Promise<ChatOrder> {
  const models = await checkModels(chat, services);
  return completeOrder(chat, models, services);
}

/**
 * Builds the order of a checked request: signs the URLs of its uploads.
 * @throws GatewayError INVALID_INPUT_URL if a file is not a picture of this organization
 */
export async function completeOrder(
  chat: IncomingChat<Pick<Caller, 'organizationId' | 'keyId' | 'token'>>,
  models: ChatOrder['models'],
  services: Pick<Services, 'inputs' | 'storage'>,
): Promise<ChatOrder> {
  const { caller, requestId } = chat;
  const { organizationId, keyId } = caller;
  const request = await signUploads(chat, services);
  const body = { ...request.body, messages: joinResults(request.body.messages) };
  const tokenId = caller.token?.tokenId;
  return { ...request, body, organizationId, keyId, tokenId, requestId, models };
}
