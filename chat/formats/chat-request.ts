/** Chat request in the internal format, into which every chat endpoint translates its requests. */
import type { ChatBody } from '../chat-body.ts';
import { isRecord, toStorable, type Json } from '../../domain/json.ts';
import type { ToolForm } from './responses-tools.ts';
import type { Caller } from '../../identity/access.ts';

/** Parsed chat request. */
export interface ChatRequest {
  model: string;
  /** Ids of the fallback models, which are called in this order until one succeeds. */
  fallbacks?: string[];
  body: ChatBody;
  /** Maximum number of tokens of an answer. Null if the request sets no maximum. */
  maxTokens: number | null;
  stream: boolean;
  /** Value of `stream_options.include_usage`. */
  includeUsage: boolean;
  /** Metadata that the caller chose for this chat. Null if the request has none. */
  metadata: Record<string, string> | null;
  /** Paths of the known fields and items that are ignored, for `X-Ignored-Fields`. */
  ignored?: string[];
  /** Tools that functions of the body stand for, by the name of the function. */
  toolForms?: Record<string, ToolForm>;
}

/** Chat request with its caller. */
export interface IncomingChat {
  caller: Caller;
  requestId: string;
  request: ChatRequest;
}

/**
 * Repairs the texts of earlier answers in a request. A provider may have sent a text that was cut
 * within a character, and callers return answers unchanged.
 */
export function repairAnswers(body: Record<string, unknown>): void {
  for (const field of ['messages', 'input']) {
    const items = body[field];
    if (!Array.isArray(items)) continue;
    body[field] = items.map((item: Json) => (isAnswer(item) ? toStorable(item) : item));
  }
}

/** Item types of the Responses API that a model makes. */
const answerTypes: ReadonlySet<unknown> = new Set(['function_call', 'reasoning']);

function isAnswer(item: Json): boolean {
  return isRecord(item) && (item['role'] === 'assistant' || answerTypes.has(item['type']));
}
