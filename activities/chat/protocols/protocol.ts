/**
 * The protocol port of chat upstreams. Inside, chat is spoken in OpenAI's words; a protocol translates
 * to and from what an upstream speaks. It calls, waits for and bills nothing.
 */
import type { ChatModel } from '../../../catalog/chat-model.ts';
import type { GatewayError } from '../../../domain/errors.ts';
import { isRecord } from '../../../domain/json.ts';
import type { ChatBody } from '../chat-body.ts';
import type { TokenUsage } from '../chat-price.ts';
import { upstreamBroke } from '../upstream-failures.ts';

/** A request to be translated. */
export interface ChatCall {
  model: ChatModel;
  body: ChatBody;
  stream: boolean;
}

/** Why an answer ended, in OpenAI's words: `stop`, `length`, `tool_calls`, `content_filter`. */
export type FinishReason = string | null;

/** A whole answer. */
export interface ChatAnswer {
  /** OpenAI's `chat.completion`. */
  completion: Record<string, unknown>;
  /** Text of the first choice. */
  text: string;
  finishReason: FinishReason;
  /** Null when the upstream did not say. */
  usage: TokenUsage | null;
  /** All that the model wrote, to be counted where usage is missing. */
  written: string;
}

/** One upstream event, read. */
export interface StreamStep {
  /** OpenAI's `chat.completion.chunk` as JSON text; null when there is nothing to relay. */
  chunk: string | null;
  /** Text for the first choice. */
  text: string;
  /** All that the model wrote in this step, to be counted. */
  written: string;
}

/** Reads one stream. */
export interface StreamReader {
  /** Null for events that say nothing. @throws GatewayError for an error event. */
  read: (event: { event?: string | undefined; data: string }) => StreamStep | null;
  /** True once the upstream has said that it is through. */
  readonly complete: boolean;
  readonly finishReason: FinishReason;
  /** What the upstream has said so far; `final` when it covers the whole answer. */
  readonly usage: Partial<TokenUsage> & { final: boolean };
  /** Names the stream, for a chunk of our own. */
  readonly head: { id: string; created: number; model: string };
}

/** An upstream's error answer. */
export interface UpstreamRefusal {
  status: number;
  body: unknown;
  retryAfter: string | string[] | undefined;
}

/** A wire protocol. */
export interface ChatProtocol {
  /** Behind the base URL. */
  path: string;
  headers: (apiKey: string) => Record<string, string>;
  /**
   * The request but for the bound on the answer.
   * @throws GatewayError UNSUPPORTED_PARAMETER, INVALID_INPUT_URL
   */
  encode: (call: ChatCall) => Record<string, unknown>;
  /** The field of the request that bounds the answer. */
  boundField: (model: ChatModel) => string;
  /** Null for an answer that is none. */
  decode: (answer: unknown) => ChatAnswer | null;
  createReader: () => StreamReader;
  failureOf: (refusal: UpstreamRefusal) => GatewayError;
}

/** Tokens that an upstream said; anything that is no count is not said. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Parses the data of an event. @throws GatewayError for a stream that is no JSON. */
export function parseObject(data: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (error) {
    throw upstreamBroke(error);
  }
  if (!isRecord(value)) throw upstreamBroke(null);
  return value;
}
