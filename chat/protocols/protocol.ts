/**
 * Protocols of chat providers. The internal format is OpenAI's chat completions; a protocol
 * translates it to and from the format of a provider.
 */
import type { ChatModel } from '../../catalog/chat-model.ts';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import type { ChatBody } from '../chat-body.ts';
import type { ReportedUsage, TokenUsage } from '../chat-price.ts';
import { parseAnswer, upstreamBroke } from '../upstream-failures.ts';

/** Request to translate. */
export interface ChatCall {
  model: ChatModel;
  body: ChatBody;
  stream: boolean;
}

/**
 * Finish reason of an answer, as in OpenAI's API: `stop`, `length`, `tool_calls`, `content_filter`.
 */
export type FinishReason = string | null;

/** A whole answer. */
export interface ChatAnswer {
  /** OpenAI's `chat.completion`. */
  completion: Record<string, unknown>;
  /** Text of the first choice. */
  text: string;
  finishReason: FinishReason;
  /** Stop sequence at which the answer ended, if the provider reports it. */
  stopSequence: string | null;
  /** Usage that the provider reported; null if it reported none. */
  usage: TokenUsage | null;
  /** All output of the model, counted if the provider reports no usage. */
  written: string;
}

/** Event of a provider's stream. */
export interface StreamStep {
  /**
   * OpenAI's `chat.completion.chunk`, whose id and model the gateway replaces; null if there is
   * nothing to relay.
   */
  chunk: Record<string, unknown> | null;
  /** Text for the first choice. */
  text: string;
  /** Output of the model in this step, counted if the provider reports no usage. */
  written: string;
}

/** Reader of one stream. */
export interface StreamReader {
  /** Reads an event; returns null if it has no content. @throws GatewayError for an error event. */
  read: (event: { event?: string | undefined; data: string }) => StreamStep | null;
  /** True if the provider has sent the end of the answer. */
  readonly complete: boolean;
  readonly finishReason: FinishReason;
  readonly stopSequence: string | null;
  readonly usage: ReportedUsage;
  /**
   * The provider's id and model of the stream, empty if it sends none, and its time in Unix
   * seconds.
   */
  readonly head: { id: string; created: number; model: string };
}

/** Error response of a provider. */
export interface UpstreamRefusal {
  status: number;
  body: unknown;
  retryAfter: string | string[] | undefined;
}

/** Wire protocol of a provider. */
export interface ChatProtocol {
  /** Path after the base URL. */
  path: string;
  headers: (apiKey: string) => Record<string, string>;
  /**
   * Translates a request; `bounded` adds the token limit of the answer later.
   * @throws GatewayError UNSUPPORTED_PARAMETER, INVALID_INPUT_URL
   */
  encode: (call: ChatCall) => Record<string, unknown>;
  /** Adds the token limit of the answer to an encoded request. */
  bounded: (
    fields: Record<string, unknown>,
    bound: { model: ChatModel; answerTokens: number },
  ) => Record<string, unknown>;
  /** Parses a whole answer; returns null if it has another format. */
  decode: (answer: unknown) => ChatAnswer | null;
  /** Makes the reader of a stream with this number of answers. */
  createReader: (answers: number) => StreamReader;
  failureOf: (refusal: UpstreamRefusal) => GatewayError;
}

/** Makes the error of a field that a model does not support. */
export function unsupported(path: string, message: string): GatewayError {
  return fieldError('UNSUPPORTED_PARAMETER', path, message);
}

/** Returns a reported number of tokens; undefined if the value is not a count. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Parses the data of an event. @throws GatewayError if it is not a JSON object. */
export function parseObject(data: string): Record<string, unknown> {
  const value = parseAnswer(data);
  if (!isRecord(value)) throw upstreamBroke(null);
  return value;
}
