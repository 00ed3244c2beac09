/** The shapes of `chat` and `chatStream`. */
import type { components, paths } from './schema.ts';

type ChatOperation = paths['/api/v1/chat']['post'];

/** What is said to a model. */
export type ChatRequest = Omit<
  ChatOperation['requestBody']['content']['application/json'],
  'stream'
>;

/** A whole answer. */
export type ChatAnswer = ChatOperation['responses'][200]['content']['application/json'];

/** A piece of an answer. */
export interface ChatDelta {
  type: 'delta';
  id: string;
  model: string;
  delta: string;
}

/** The end of an answer that is whole. */
export interface ChatDone {
  type: 'done';
  id: string;
  model: string;
  finishReason: string | null;
  usage: components['schemas']['TokenUsage'];
  creditsConsumed: number;
}

/** An event of a streamed answer. */
export type ChatEvent = ChatDelta | ChatDone;
