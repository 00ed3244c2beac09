/**
 * Interface of chat protocols. A protocol translates between the internal format, which is that of
 * OpenAI's chat completions, and the format of a provider.
 */
import type { ChatModel } from '../models.ts';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import type { ChatBody } from '../chat-body.ts';
import type { ReportedUsage } from '../bill.ts';
import { errorFromEvent, parseJson } from '../upstream-failures.ts';

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
  /** The answer as steps of a stream, in which all its parts are in order. */
  steps: readonly StreamStep[];
  /** Text of the first choice. */
  text: string;
  finishReason: FinishReason;
  /** Stop sequence at which the answer ended; null if the provider reports none. */
  stopSequence: string | null;
  /** All output of the model; its tokens are counted if the provider reports no usage. */
  outputText: string;
}

/** One chunk of an answer. */
export interface StreamStep {
  /**
   * Chunk in OpenAI's format (`chat.completion.chunk`) with one choice; the gateway replaces its id
   * and model.
   */
  chunk: Record<string, unknown>;
  /** Text that the chunk adds to the first choice. */
  text: string;
  /** Output of the model in this chunk; its tokens are counted if the provider reports no usage. */
  outputText: string;
}

/** Event of a provider's stream. */
export interface StreamEvent {
  event?: string | undefined;
  data: string;
}

/** Parser of one answer, which arrives as a stream of events or as one document. */
export interface AnswerReader {
  /**
   * Parses an event. Events without JSON, and events after the end, have no steps.
   * @throws GatewayError for an error event, and for output that cannot be parsed or assigned
   */
  read: (event: StreamEvent) => StreamStep[];
  /** Parses an answer that is one JSON document. @throws GatewayError */
  readDocument: (text: string) => StreamStep[];
  /** Ends a complete answer: returns the output that is left, and the finish reasons. */
  end: () => StreamStep[];
  /** True if the provider has sent the mark after which nothing matters. */
  readonly isEnded: boolean;
  /** True if the answer is whole: it has an end, and output or a finish reason. */
  readonly complete: boolean;
  readonly finishReason: FinishReason;
  readonly stopSequence: string | null;
  readonly usage: ReportedUsage;
  /** Metadata of the answer: `id` and `model` (empty if missing), and `created` in Unix seconds. */
  readonly head: { id: string; created: number; model: string };
}

/** Response that a parser is created for. */
export interface ExpectedResponse {
  /** Number of answers that it contains. */
  answers: number;
  /** Name of the provider, which the thoughts receive. */
  provider: string;
  /** Names of the caller's tools, by the names that the provider knows. */
  callerNames?: ReadonlyMap<string, string>;
}

/** Wire protocol of a provider. */
export interface ChatProtocol {
  /** Path of the chat endpoint below the provider's base URL. */
  path: string;
  headers: (apiKey: string) => Record<string, string>;
  /** Maximum size in bytes of an answer that is not streamed. It is held in memory. */
  answerBytesMax: number;
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
  /** Creates the parser of a response. */
  createReader: (response: ExpectedResponse) => AnswerReader;
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

/**
 * Returns the value as a token count if it is a non-negative integer, at most the largest safe one;
 * otherwise undefined.
 */
export function parseTokenCount(value: unknown): number | undefined {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) return undefined;
  return Math.min(value, Number.MAX_SAFE_INTEGER);
}

/**
 * Parses the data of an event or a document. Returns null if it is no JSON object, such as comments
 * of proxies; of a list, its first entry counts.
 * @throws GatewayError if the data reports an error, or begins like JSON and is not JSON
 */
export function parseReport(data: string, event?: string): Record<string, unknown> | null {
  const parsed = /^\s*(?:\{|\[\s*\{)/.test(data) ? parseJson(data) : null;
  const value: unknown = Array.isArray(parsed) ? parsed[0] : parsed;
  const report = isRecord(value) ? value : null;
  if (event === 'error' || (report && isErrorReport(report))) {
    throw errorFromEvent(report ?? { message: data });
  }
  return report;
}

/** Returns whether an object in a response with status 200 reports an error. */
function isErrorReport(value: Record<string, unknown>): boolean {
  if (value['error'] || value['object'] === 'error' || value['type'] === 'error') return true;
  const hasMessage = typeof value['message'] === 'string' || typeof value['detail'] === 'string';
  return hasMessage && value['choices'] === undefined;
}
