/** Chat request in the internal format, into which every chat endpoint translates its requests. */
import type { ChatBody } from '../../chat/chat-body.ts';
import type { Context } from '../context.ts';

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
}

/** Chat request with the context of its HTTP request. */
export interface ChatCall {
  ctx: Context;
  body: ChatRequest;
}
