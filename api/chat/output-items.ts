/** Formats output items of OpenAI's Responses API. */
import type { JsonObject } from '../../domain/json.ts';
import { encodeProviderData } from './thoughts.ts';

/** Part of an output message. */
export interface TextPart {
  kind: 'output_text' | 'refusal';
  text: string;
}

/** Message of the model. */
export interface MessageItem {
  type: 'message';
  id: string;
  parts: TextPart[];
}

/** Tool call. `json` contains its arguments. */
export interface ToolCallItem {
  type: 'function_call';
  id: string;
  callId: string;
  name: string;
  json: string;
}

/** Reasoning, with the provider data that the next request must contain. */
export interface ReasoningItem {
  type: 'reasoning';
  id: string;
  text: string;
  details: JsonObject[];
  extraContent?: JsonObject;
}

/** Output item of a response. */
export type OutputItem = MessageItem | ToolCallItem | ReasoningItem;
/** Status of an output item. */
export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** Formats a part of an output message. */
export function formatPart({ kind, text }: TextPart): object {
  return kind === 'refusal'
    ? { type: kind, refusal: text }
    : { type: kind, text, annotations: [], logprobs: [] };
}

/** Formats an output item. */
export function formatItem(item: OutputItem, status: ItemStatus): object {
  const { type, id } = item;
  if (item.type === 'message') {
    return { id, type, status, role: 'assistant', content: item.parts.map(formatPart) };
  }
  if (item.type === 'function_call') {
    return { id, type, status, call_id: item.callId, name: item.name, arguments: item.json };
  }
  const { text, details, extraContent } = item;
  const content = {
    ...(details.length > 0 && { details }),
    ...(extraContent && { extraContent }),
  };
  return {
    id,
    type,
    summary: text === '' ? [] : [formatSummary(text)],
    encrypted_content: Object.keys(content).length > 0 ? encodeProviderData(content) : null,
  };
}

/** Formats the summary of a reasoning item. */
export function formatSummary(text: string): object {
  return { type: 'summary_text', text };
}
