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
 * Content of a part of a message. Media are data URIs in base64, with the type of their bytes, or
 * https URLs. The URL of an image may also be the id of an uploaded file, until `signUploads`
 * replaces it.
 */
export type PartContent = Cacheable &
  (
    | { type: 'text'; text: string }
    | { type: 'image_url'; image_url: { url: string; detail?: string } }
    | { type: 'input_audio'; input_audio: { data: string; format: string } }
    | { type: 'video_url'; video_url: { url: string } }
    | { type: 'file'; file: { file_data?: string; file_url?: string; filename?: string } }
  );
/** Part of a message, with its path in the caller's request for error messages. */
export type ContentPart = PartContent & { path: string };

/** Reasoning of an earlier answer. Only the provider that made it can verify its signature. */
export interface Thought {
  type: 'thought';
  text: string;
  /** Empty if the provider does not sign its reasoning. */
  signature: string;
  /** Encrypted reasoning. Empty if the reasoning is a text. */
  data: string;
  /** Name of the provider that made the thought. Empty if it is unknown. */
  provider: string;
}

/** Tool call that the model made; `arguments` is JSON text. */
export interface ToolCall extends Cacheable {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
  /** Path of the arguments in the caller's request, for error messages. */
  path?: string;
  /** Google's thought signature, which Google requires in later requests with this tool call. */
  extra_content?: JsonObject;
}

/** Block of an answer. */
export type AnswerBlock =
  | (Cacheable & { type: 'text'; text: string })
  | { type: 'refusal'; refusal: string }
  | Thought
  | ToolCall;

interface Located {
  /** Path of the message in the caller's request, for error messages. */
  path: string;
}

/** Message of the system, the user or a tool. */
interface InputMessage extends Located {
  content: string | ContentPart[];
  name?: string;
}
/** Instructions for the model, at any place of the conversation. */
export interface SystemMessage extends InputMessage {
  role: 'system';
}
/** Message of the user. */
export interface UserMessage extends InputMessage {
  role: 'user';
}
/** Result of a tool call. */
export interface ToolMessage extends InputMessage, Cacheable {
  role: 'tool';
  tool_call_id: string;
  /** True if the result reports a failure. */
  is_error?: boolean;
}
/** Earlier answer. Its blocks are in the order in which the model made them. */
export interface AssistantMessage extends Located {
  role: 'assistant';
  blocks: AnswerBlock[];
  name?: string;
  /** Google's thought signature of the text. */
  extra_content?: JsonObject;
}
/** Message of the conversation. */
export type ChatMessage = SystemMessage | UserMessage | ToolMessage | AssistantMessage;

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

/** Efforts of reasoning in rising order. `default` is the only effort of some models. */
export const efforts = [
  'none',
  'minimal',
  'low',
  'medium',
  'default',
  'high',
  'xhigh',
  'max',
] as const;
export type Effort = (typeof efforts)[number];

/** Requested reasoning, and the caller's names of the fields that request it. */
export interface Reasoning {
  /**
   * `adaptive`: as much as the model chooses; `off if possible`: none, but a model that always
   * reasons may answer; `default`: the provider's default.
   */
  mode: 'on' | 'adaptive' | 'off' | 'off if possible' | 'default';
  /** Field that sets the mode. */
  modeField: string;
  effort?: Exclude<Effort, 'none' | 'default'>;
  /** Field that sets the effort. */
  effortField?: string;
  /** Maximum number of reasoning tokens. */
  budgetTokens?: number;
}

/** Inputs of a request for embeddings, each with one vector in the answer. */
export interface EmbeddingInput {
  /** Texts, or lists of tokens. */
  inputs: readonly string[] | readonly (readonly number[])[];
  /** Length of the vectors; absent for the model's default. */
  dimensions?: number;
  /** Format in which the caller receives the vectors: numbers, or base64 of 32-bit floats. */
  format: 'float' | 'base64';
}

/**
 * Fields of a chat request that are passed to providers. They are fields of OpenAI's chat
 * completions and of Anthropic's Messages API.
 */
export interface ChatBody extends Cacheable {
  /** Messages of the conversation; none in a request for embeddings. */
  messages: ChatMessage[];
  embedding?: EmbeddingInput;
  temperature?: number;
  top_p?: number;
  stop?: string | string[];
  /** Number of answers; the token limit applies to each answer. */
  n?: number;
  tools?: Tool[];
  tool_choice?: 'none' | 'auto' | 'required' | { type: 'function'; function: { name: string } };
  parallel_tool_calls?: boolean;
  response_format?: { type: string; [field: string]: Json };
  reasoning?: Reasoning;
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

/** Returns the tool calls of an answer. */
export function getCalls({ blocks }: AssistantMessage): ToolCall[] {
  return blocks.filter((block) => block.type === 'function');
}

/**
 * Joins the results of the same tool call to one, at the place of the first. Codex sends each note
 * of a running tool as a result, and providers accept one result of a call.
 */
export function joinResults(messages: readonly ChatMessage[]): ChatMessage[] {
  const joined: ChatMessage[] = [];
  /** Number of calls without a result so far, and the last result, by the id of the call. */
  const openCalls = new Map<string, number>();
  const results = new Map<string, ToolMessage>();
  const addOpen = (id: string, count: number) =>
    openCalls.set(id, Math.max(0, (openCalls.get(id) ?? 0) + count));
  for (const message of messages) {
    if (message.role === 'assistant') for (const { id } of getCalls(message)) addOpen(id, 1);
    if (message.role !== 'tool') {
      joined.push(message);
      continue;
    }
    const { tool_call_id: id } = message;
    const earlier = openCalls.get(id) ? undefined : results.get(id);
    addOpen(id, -1);
    if (earlier) Object.assign(earlier, message, { content: joinContents(earlier, message) });
    else {
      const result = { ...message };
      results.set(id, result);
      joined.push(result);
    }
  }
  return joined;
}

function joinContents(first: ToolMessage, second: ToolMessage): ToolMessage['content'] {
  if (typeof first.content === 'string' && typeof second.content === 'string') {
    return `${first.content}\n${second.content}`;
  }
  return [first, second].flatMap(({ path, content }) =>
    typeof content === 'string' ? [{ type: 'text' as const, text: content, path }] : content,
  );
}

/** Yields the content parts of all messages. */
export function* iterateParts({ messages }: ChatBody): Generator<ContentPart> {
  for (const message of messages) {
    if (message.role !== 'assistant' && Array.isArray(message.content)) yield* message.content;
  }
}
