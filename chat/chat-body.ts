/**
 * Internal chat request in OpenAI's format. It has no fields that the gateway sets itself: model,
 * stream, and the token limit of the answer.
 */
import type { Json, JsonObject } from '../domain/json.ts';

/**
 * Part of a prompt that can mark the end of a prefix. The provider caches a marked prefix for five
 * minutes after its last use.
 */
interface Cacheable {
  cache_control?: { type: 'ephemeral' };
}

/**
 * Part of a message. Media are data URIs or https URLs. The URL of an image may also be the id of
 * an uploaded file, until `signUploads` replaces it.
 */
export type ContentPart = Cacheable &
  (
    | { type: 'text'; text: string }
    | { type: 'refusal'; refusal: string }
    | { type: 'image_url'; image_url: { url: string; detail?: string } }
    | { type: 'input_audio'; input_audio: { data: string; format: string } }
    | { type: 'video_url'; video_url: { url: string } }
    | { type: 'file'; file: { file_data?: string; file_url?: string; filename?: string } }
  );

/** Tool call that the model made; `arguments` is JSON text. */
export interface ToolCall extends Cacheable {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
  /** Google's thought signature, which Google requires in later requests with this tool call. */
  extra_content?: JsonObject | null;
}

/** Message of the conversation. */
export interface ChatMessage extends Cacheable {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content?: string | ContentPart[] | null;
  name?: string;
  refusal?: string | null;
  /** Reasoning of an earlier answer, as text. */
  reasoning_content?: string;
  /** Reasoning of an earlier answer in signed or encrypted parts, which its provider can verify. */
  reasoning_details?: JsonObject[];
  extra_content?: JsonObject;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
  /** True if a tool result reports a failure. */
  is_error?: boolean;
}

/** Tool that the model may call. */
export interface Tool extends Cacheable {
  type: 'function';
  function: {
    name: string;
    description?: string;
    parameters?: JsonObject;
    strict?: boolean | null;
  };
}

/**
 * Requested reasoning. `enabled`: up to a budget in tokens; `adaptive`: as much as the model
 * chooses; `disabled`: none; `default`: the provider's default. If the field is missing,
 * `reasoning_effort` applies.
 */
export type Thinking =
  | { type: 'enabled'; budget_tokens: number }
  | { type: 'adaptive' }
  | { type: 'disabled' }
  | { type: 'default' };

/**
 * Fields of a chat request that are passed to providers. They are fields of OpenAI's chat
 * completions and of Anthropic's Messages API.
 */
export interface ChatBody extends Cacheable {
  messages: ChatMessage[];
  temperature?: number;
  top_p?: number;
  stop?: string | string[];
  /** Number of answers; the token limit applies to each answer. */
  n?: number;
  tools?: Tool[];
  tool_choice?: 'none' | 'auto' | 'required' | { type: 'function'; function: { name: string } };
  parallel_tool_calls?: boolean;
  response_format?: { type: string; [field: string]: Json };
  reasoning_effort?: string;
  thinking?: Thinking;
  top_k?: number;
  user?: string;
  seed?: number;
  logprobs?: boolean;
  top_logprobs?: number;
  logit_bias?: Record<string, number>;
  presence_penalty?: number;
  frequency_penalty?: number;
  metadata?: Record<string, string>;
  prediction?: JsonObject;
  prompt_cache_key?: string;
  prompt_cache_retention?: string;
  safety_identifier?: string;
  store?: boolean;
  verbosity?: string;
}

/** Yields the content parts of all messages with their paths in the request. */
export function* iterateParts({
  messages,
}: ChatBody): Generator<[path: string, part: ContentPart]> {
  for (const [index, { content }] of messages.entries()) {
    if (!Array.isArray(content)) continue;
    for (const [partIndex, part] of content.entries()) {
      yield [`messages.${index}.content.${partIndex}`, part];
    }
  }
}
