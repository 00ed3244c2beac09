/** Chat request in the internal format, into which every chat endpoint translates its requests. */
import type { ChatBody } from '../../chat/chat-body.ts';
import type { Context } from '../context.ts';

/** Parsed chat request. */
export interface ChatRequest {
  model: string;
  /** Fallback models, called in order until one succeeds. */
  fallbacks?: string[];
  body: ChatBody;
  /** Maximum tokens of an answer; null if the request has no limit. */
  maxTokens: number | null;
  stream: boolean;
  /** Value of `stream_options.include_usage`. */
  includeUsage: boolean;
  /** The caller's metadata; null if there is none. */
  metadata: Record<string, string> | null;
  /** Known fields and items that were ignored; reported in `X-Ignored-Fields`. */
  ignored?: string[];
}

/** Chat request with the context of its HTTP request. */
export interface ChatCall {
  ctx: Context;
  body: ChatRequest;
}
