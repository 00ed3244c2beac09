/** Official clients of a caller, and parts of requests that many chat tests use. */
import Anthropic from '@anthropic-ai/sdk';
import type {
  Message,
  MessageCreateParamsNonStreaming,
} from '@anthropic-ai/sdk/resources/messages';
import OpenAI from 'openai';
import type { ChatCompletion, ChatCompletionCreateParamsNonStreaming } from 'openai/resources';
import type {
  Response,
  ResponseCreateParamsNonStreaming,
} from 'openai/resources/responses/responses';
import { beforeEach } from 'vitest';
import type { ChatResponse } from '../../api/endpoints/chat-completions.ts';
import type { Answer, StudioBody, TestCaller, TestGateway } from '../harness/gateway.ts';

/** A caller and its clients, which do not retry. */
export interface ChatClients {
  caller: TestCaller;
  openai: OpenAI;
  anthropic: Anthropic;
  /** Sends a request whole or as a stream, of which the client makes a whole answer. */
  complete: (
    request: ChatCompletionCreateParamsNonStreaming,
    stream?: boolean,
  ) => Promise<ChatCompletion>;
  respond: (request: ResponseCreateParamsNonStreaming, stream?: boolean) => Promise<Response>;
  message: (request: MessageCreateParamsNonStreaming, stream?: boolean) => Promise<Message>;
}

/** Returns the clients of a caller. */
export function makeClients({ url }: TestGateway, caller: TestCaller): ChatClients {
  const options = { apiKey: caller.key, maxRetries: 0 };
  const openai = new OpenAI({ ...options, baseURL: `${url}/v1` });
  const anthropic = new Anthropic({ ...options, baseURL: url });
  const { completions } = openai.chat;
  return {
    caller,
    openai,
    anthropic,
    complete: async (request, stream) =>
      stream
        ? completions.stream({ ...request, stream }).finalChatCompletion()
        : completions.create(request),
    respond: async (request, stream) =>
      stream
        ? openai.responses.stream({ ...request, stream }).finalResponse()
        : openai.responses.create(request),
    message: async (request, stream) =>
      stream
        ? anthropic.messages.stream(request).finalMessage()
        : anthropic.messages.create(request),
  };
}

/** Returns the clients of a caller that is new for each test. */
export function useClients(gateway: TestGateway): ChatClients {
  const clients = {} as ChatClients;
  beforeEach(async () => {
    Object.assign(clients, makeClients(gateway, await gateway.newCaller({ credits: 1000 })));
  });
  return clients;
}

/** Returns the messages of a chat with one text of the user. */
export const say = (content: string) => [{ role: 'user' as const, content }];

/** The response to a chat; the tests check which fields are present. */
type ChatBody = ChatResponse & Pick<StudioBody, 'error' | 'message' | 'details'>;

/** Sends a chat of a caller, with gpt-4o unless the body names another model. */
export const sendChat = (
  gateway: TestGateway,
  { key }: TestCaller,
  body: { messages: object[]; [field: string]: unknown },
  path = '/api/v1/chat',
): Promise<Answer<ChatBody>> =>
  gateway.call<ChatBody>(path, { key, body: { model: 'gpt-4o', ...body } });

/** A PNG image of one pixel, base64. */
export const onePixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
/** The same image as a data URL. */
export const onePixelUrl = `data:image/png;base64,${onePixel}`;
