/** Types of `chat` and `chatStream`. */
import type { components, paths } from './schema.ts';

type ChatOperation = paths['/api/v1/chat']['post'];

/** Request body of a chat. */
export type ChatRequest = Omit<
  ChatOperation['requestBody']['content']['application/json'],
  'stream'
>;

/** Answer of a chat that is not streamed. */
export type ChatAnswer = ChatOperation['responses'][200]['content']['application/json'];

/** Event with the next part of a streamed answer. */
export interface ChatDelta {
  type: 'delta';
  id: string;
  model: string;
  delta: string;
}

/** Last event of a streamed answer. */
export interface ChatDone {
  type: 'done';
  id: string;
  model: string;
  finishReason: string | null;
  usage: components['schemas']['TokenUsage'];
  /** Null if the charge is not confirmed within some seconds; GET /api/v1/chats/{id} shows it. */
  creditsConsumed: number | null;
}

/** Any event of a streamed answer. */
export type ChatEvent = ChatDelta | ChatDone;
