/**
 * Interface of chat protocols. A protocol translates between the internal format, which is that of
 * OpenAI's chat completions, and the format of a provider.
 */
import type { ChatModel } from '../../catalog/chat-model.ts';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import type { ChatBody } from '../chat-body.ts';
import type { ReportedUsage, TokenUsage } from '../chat-price.ts';
import { parseJson, invalidResponseError } from '../upstream-failures.ts';

/** Chat request that a protocol translates. */
export interface ChatCall {
  model: ChatModel;
  body: ChatBody;
  stream: boolean;
}

/** Finish reason as in OpenAI's API: `stop`, `length`, `tool_calls`, `content_filter`. */
export type FinishReason = string | null;

/** Answer that is not streamed. */
export interface ChatAnswer {
  /** Answer in OpenAI's format (`chat.completion`). */
  completion: Record<string, unknown>;
  /** Text of the first choice. */
  text: string;
  finishReason: FinishReason;
  /** Stop sequence at which the answer ended; null if the provider reports none. */
  stopSequence: string | null;
  /** Usage that the provider reported; null if it reported none. */
  usage: TokenUsage | null;
  /** All output of the model; its tokens are counted if the provider reports no usage. */
  outputText: string;
}

/** Content of one event of a provider's stream. */
export interface StreamStep {
  /**
   * Chunk in OpenAI's format (`chat.completion.chunk`); the gateway replaces its id and model. Null
   * if the event causes no chunk for the caller.
   */
  chunk: Record<string, unknown> | null;
  /** Text that the event adds to the first choice. */
  text: string;
  /** Output of the model in this event; its tokens are counted if the provider reports no usage. */
  outputText: string;
}

/** Parser of one provider stream. */
export interface StreamReader {
  /** Parses an event; returns null if it has no content. @throws GatewayError for an error event */
  read: (event: { event?: string | undefined; data: string }) => StreamStep | null;
  /** True if the provider has sent the end of the answer. */
  readonly complete: boolean;
  readonly finishReason: FinishReason;
  readonly stopSequence: string | null;
  readonly usage: ReportedUsage;
  /** Metadata of the stream: `id` and `model` (empty if missing), and `created` in Unix seconds. */
  readonly head: { id: string; created: number; model: string };
}

/** Error response of a provider. */
export interface ErrorResponse {
  status: number;
  body: unknown;
  retryAfter: string | string[] | undefined;
}

/** Wire protocol of a provider. */
export interface ChatProtocol {
  /** Path of the chat endpoint below the provider's base URL. */
  path: string;
  headers: (apiKey: string) => Record<string, string>;
  /**
   * Translates a request to the provider's format. The answer's token limit is added by
   * `withTokenLimit`.
   * @throws GatewayError UNSUPPORTED_PARAMETER, INVALID_INPUT_URL
   */
  encode: (call: ChatCall) => Record<string, unknown>;
  /** Adds the token limit of the answer to an encoded request. */
  withTokenLimit: (
    fields: Record<string, unknown>,
    limit: { model: ChatModel; answerTokens: number },
  ) => Record<string, unknown>;
  /**
   * Parses an answer of a provider that is not streamed; returns null if its format is unknown. The
   * thoughts in the answer name the provider.
   */
  decode: (answer: unknown, provider: string) => ChatAnswer | null;
  /** Creates the parser of a stream of a provider that contains this number of answers. */
  createReader: (stream: { answers: number; provider: string }) => StreamReader;
  toGatewayError: (response: ErrorResponse) => GatewayError;
}

/** Creates the error for a field that a model does not support. */
export function unsupportedField(path: string, message: string): GatewayError {
  return fieldError('UNSUPPORTED_PARAMETER', path, message);
}

/**
 * Marks instructions in a message of the user, for models that accept system messages only at the
 * start of a conversation.
 */
export function toReminder(text: string): string {
  return `<system-reminder>\n${text}\n</system-reminder>`;
}

/** Returns the value as a token count if it is a non-negative integer; otherwise undefined. */
export function parseTokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Parses the data of an event. @throws GatewayError if it is not a JSON object. */
export function parseObject(data: string): Record<string, unknown> {
  const value = parseJson(data);
  if (!isRecord(value)) throw invalidResponseError(null);
  return value;
}
