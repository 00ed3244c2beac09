/** Chat request of any endpoint, after it was parsed and translated to the internal format. */
import type { ChatBody } from '../../chat/chat-body.ts';
import type { Context } from '../context.ts';

/** Parsed chat request. */
export interface ChatRequest {
  model: string;
  /** Models that are called in this order, each if the previous model fails. */
  fallbacks?: string[];
  body: ChatBody;
  maxTokens: number | null;
  stream: boolean;
  /** Value of `stream_options.include_usage`. */
  includeUsage: boolean;
  /** The caller's metadata; null if there is none. */
  metadata: Record<string, string> | null;
  /** Known fields and items that have no effect, for `X-Ignored-Fields`. */
  ignored?: string[];
}

/** Chat request with its context. */
export interface ChatCall {
  ctx: Context;
  body: ChatRequest;
}
