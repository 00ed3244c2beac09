/**
 * Chats that are items of a bulk job: the endpoints that an item may use, the checks of its body, and its
 * chat before the credits are reserved.
 */
import type { z } from 'zod';
import { fieldError, renameFields } from '../domain/errors.ts';
import { addEndUser, splitEndUser } from '../domain/end-users.ts';
import { asRecord, asText, type JsonObject } from '../domain/json.ts';
import { addShared } from '../domain/metadata.ts';
import { parseWith } from '../domain/parsing.ts';
import type { RequestCaller } from '../identity/access.ts';
import type { ChatReserveResult, ChatSettle } from './chat-ledger.ts';
import type { AnsweringChat } from './chat-telemetry.ts';
import { repairAnswers, type ChatRequest } from './formats/chat-fields.ts';
import {
  completionsPresentation,
  servicePresentation,
  type Presentation,
} from './formats/completions-answer.ts';
import { chatRequestSchema, completionsRequestSchema } from './formats/completions-request.ts';
import { embeddingsPresentation, embeddingsRequestSchema } from './formats/embeddings-request.ts';
import { createMessagesPresentation } from './formats/messages-answer.ts';
import { messagesRequestSchema, toMessagesName } from './formats/messages-request.ts';
import { createResponsesPresentation } from './formats/responses-answer.ts';
import { responsesRequestSchema, toResponsesName } from './formats/responses-request.ts';
import { checkModels, completeOrder, type ChatOrder } from './orders.ts';

/** Chat whose credits are reserved. */
export interface ReservedChat {
  id: string;
  reservedMicro: number;
  /** Receives the settlement when the answer ends, and returns the micro-credits that it charges. */
  settle: (settlement: ChatSettle) => Promise<number>;
}

/** Chat of an item before its credits are reserved. */
export interface PreparedChat {
  /** Minimum of free micro-credits with which the chat starts. */
  leastMicro: number;
  /** Maximum charge in micro-credits. */
  priceMicro: number;
  /** Reserves the credits under an id, if the item is still started with it. */
  reserve: (id: string) => Promise<ChatReserveResult>;
  answer: (chat: ReservedChat) => AnsweringChat;
}

/** Services that check and prepare chats. `chat`: the chat service of the process (activities/chat.ts). */
export type ItemChatServices = Parameters<typeof checkModels>[1] & {
  chat: { prepare: (order: ChatOrder) => PreparedChat };
};

/** Endpoint whose requests an item may contain. */
interface ChatUse {
  request: z.ZodType<ChatRequest>;
  presentation: () => Presentation;
  /** Converts a field name of the internal request to the endpoint's own. */
  rename: (path: string) => string;
  /** Returns the text of an answer; null if it has none. */
  readText: (answer: JsonObject) => string | null;
}

const unchanged = (path: string): string => path;
const readContent = ({ content }: JsonObject): string => asText(content);
/** Joins the texts of the parts of a content. */
const joinTexts = (content: unknown): string =>
  Array.isArray(content) ? content.map((part) => asText(asRecord(part)['text'])).join('') : '';

/** Endpoints that an item may use, by their paths after `/api/v1/`. */
export const chatUses: ReadonlyMap<string, ChatUse> = new Map<string, ChatUse>([
  [
    'chat',
    {
      request: chatRequestSchema,
      presentation: () => servicePresentation,
      rename: unchanged,
      readText: readContent,
    },
  ],
  [
    'chat/completions',
    {
      request: completionsRequestSchema,
      presentation: () => completionsPresentation,
      rename: unchanged,
      readText: readContent,
    },
  ],
  [
    'responses',
    {
      request: responsesRequestSchema,
      presentation: createResponsesPresentation,
      rename: toResponsesName,
      readText: ({ output }) =>
        Array.isArray(output)
          ? output.map((item) => joinTexts(asRecord(item)['content'])).join('')
          : '',
    },
  ],
  [
    'messages',
    {
      request: messagesRequestSchema,
      presentation: createMessagesPresentation,
      rename: toMessagesName,
      readText: ({ content }) => joinTexts(content),
    },
  ],
  [
    'embeddings',
    {
      request: embeddingsRequestSchema,
      presentation: () => embeddingsPresentation,
      rename: unchanged,
      readText: () => null,
    },
  ],
]);

/** Reasons why a field of an item must be absent or false. */
const rejectedFlags: Readonly<Record<string, string>> = {
  stream: 'no request waits for an item of a bulk job',
  background: 'every item of a bulk job is answered in the background',
  store: 'the answer is in the results of the bulk job',
};
/** Maximum number of numbers in the vectors of an item, which take about 20 bytes each. */
const numbersMax = 200_000;

function checkFields(fields: JsonObject): void {
  for (const [name, reason] of Object.entries(rejectedFlags)) {
    if (fields[name] == null || fields[name] === false) continue;
    throw fieldError('INVALID_REQUEST', name, `must be absent or false: ${reason}`);
  }
  if (typeof fields['n'] === 'number' && fields['n'] > 1) {
    throw fieldError('INVALID_REQUEST', 'n', `must be 1 in an item; received ${fields['n']}`);
  }
  for (const name of ['webhookUrl', 'webhookEvents']) {
    if (fields[name] == null) continue;
    const message = 'must be absent: a chat has no job of its own; the bulk job has a webhookUrl';
    throw fieldError('INVALID_REQUEST', name, message);
  }
}

function checkVectors({ body: { embedding } }: ChatRequest, [model]: ChatOrder['models']): void {
  if (!embedding) return;
  const dimensions = embedding.dimensions ?? model.embedding?.dimensions ?? 1;
  const inputsMax = Math.max(1, Math.floor(numbersMax / dimensions));
  const { length } = embedding.inputs;
  if (length <= inputsMax) return;
  const message = `must contain at most ${inputsMax} inputs with vectors of ${dimensions} numbers in an item; received ${length}`;
  throw fieldError('INVALID_REQUEST', 'input', message);
}

/** Chat of an item that was checked, and its price. */
interface CheckedChat {
  request: ChatRequest;
  /** Metadata of the chat and of the bulk job. */
  metadata: Record<string, string> | null;
  leastMicro: number;
  priceMicro: number;
}

/**
 * Checks and prices the body of an item. `shared` is the metadata of the bulk job.
 * @throws GatewayError like the endpoint, before it reserves credits
 */
export async function checkItemChat(
  use: ChatUse,
  item: Pick<ItemRequest, 'caller' | 'pricedAtMs'> & {
    fields: JsonObject;
    shared: Record<string, string> | null;
  },
  services: ItemChatServices,
): Promise<CheckedChat> {
  const fields = { ...item.fields };
  checkFields(fields);
  repairAnswers(fields);
  const { metadata: own, endUserDefault, ...parsed } = parseWith(use.request, fields);
  const added = addShared(item.shared, own);
  const metadata = addEndUser(added, splitEndUser(added).endUser ?? endUserDefault ?? null);
  const request = { ...parsed, metadata };
  const prepared = await prepareItemChat(
    use,
    { request, caller: item.caller, requestId: '', pricedAtMs: item.pricedAtMs },
    services,
  );
  const { leastMicro, priceMicro } = prepared.chat;
  return { request, metadata, leastMicro, priceMicro };
}

/** Request of an item with its caller. */
interface ItemRequest {
  request: ChatRequest;
  caller: RequestCaller;
  requestId: string;
  /** Time at which the bulk job was accepted, whose prices apply, in Unix milliseconds. */
  pricedAtMs: number;
}

/** Prepares the chat of an item. @throws GatewayError like the endpoint, before it reserves credits */
export async function prepareItemChat(
  use: ChatUse,
  { request, caller, requestId, pricedAtMs }: ItemRequest,
  services: ItemChatServices,
): Promise<{ chat: PreparedChat; provider: string }> {
  const incoming = { caller, requestId, request };
  try {
    const models = await checkModels(incoming, services, pricedAtMs);
    checkVectors(request, models);
    const order = await completeOrder(incoming, models, services);
    return { chat: services.chat.prepare(order), provider: models[0].provider };
  } catch (error) {
    throw renameFields(error, use.rename);
  }
}
