/**
 * A chat request as the gateway works with it: checked, in OpenAI's words, without what the gateway
 * decides itself (model, stream, the bound on the answer).
 */
import type { Json, JsonObject } from '../../domain/json.ts';

/** A piece of a message. */
export type ContentPart =
  | { type: 'text'; text: string }
  | { type: 'refusal'; refusal: string }
  | { type: 'image_url'; image_url: { url: string; detail?: string } }
  | { type: 'input_audio'; input_audio: { data: string; format: string } }
  | { type: 'file'; file: { file_data: string; filename?: string } };

/** A call of a tool that the model asked for; `arguments` is JSON text. */
export interface ToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** A message of the conversation. */
export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content?: string | ContentPart[] | null;
  name?: string;
  refusal?: string | null;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
}

/** A tool that the model may call. */
export interface Tool {
  type: 'function';
  function: {
    name: string;
    description?: string;
    parameters?: JsonObject;
    strict?: boolean | null;
  };
}

/** The fields of OpenAI's chat-completions that an upstream may be given, spelled as there. */
export interface ChatBody {
  messages: ChatMessage[];
  temperature?: number;
  top_p?: number;
  stop?: string | string[];
  /** How many answers; each may be as long as the bound says. */
  n?: number;
  tools?: Tool[];
  tool_choice?: 'none' | 'auto' | 'required' | { type: 'function'; function: { name: string } };
  parallel_tool_calls?: boolean;
  response_format?: { type: string; [field: string]: Json };
  reasoning_effort?: string;
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
