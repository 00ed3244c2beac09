/** The chat request into which every format is translated, and schemas that the formats share. */
import type { ChatBody, ContentPart, PartContent, Tool } from '../chat-body.ts';
import { addEndUser, endUserField, readClientUser } from '../../domain/end-users.ts';
import { fieldError } from '../../domain/errors.ts';
import {
  isRecord,
  toStorable,
  type Json,
  asRecord,
  asText,
  type JsonObject,
} from '../../domain/json.ts';
import { metadataSchema, nullIfEmpty } from '../../domain/metadata.ts';
import type { ToolForm } from './responses-tools.ts';
import type { Caller } from '../../identity/access.ts';
import { z } from 'zod';
import { idPattern } from '../../domain/ids.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';

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
  /**
   * Metadata that the caller chose for this chat, with the pair of the end user (domain/end-users.ts).
   * Null if the request has none.
   */
  metadata: Record<string, string> | null;
  /** End user if neither the body nor the header names one. */
  endUserDefault?: string | null;
  /** Paths of the known fields and items that are ignored, for `X-Ignored-Fields`. */
  ignored?: string[];
  /** True if the answer shall not contain the reasoning of the model. */
  excludesReasoning?: boolean;
  /** True if the answer is a chat job, which does not end with the connection. */
  background?: true;
  /** Webhook of a chat job, as it was requested. */
  webhook?: { webhookUrl?: string; webhookEvents?: string[] };
  /** Tools that functions of the body stand for, by the name of the function. */
  toolForms?: Record<string, ToolForm>;
}

/** Chat request with its caller. */
export interface IncomingChat<From = Caller> {
  caller: From;
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

/**
 * Names of the fields whose numbers keep their digits: arguments of tools, and schemas. Providers and
 * callers receive them as they were sent.
 */
export const exactFields: ReadonlySet<string> = new Set([
  'arguments',
  'input',
  'input_schema',
  'json_schema',
  'parameters',
  'schema',
]);

/** Item types of the Responses API that a model makes. */
const answerTypes: ReadonlySet<unknown> = new Set(['function_call', 'reasoning']);

function isAnswer(item: Json): boolean {
  return isRecord(item) && (item['role'] === 'assistant' || answerTypes.has(item['type']));
}

/** Schema of a text. Its maximum length exceeds the context length of every model. */
export const textSchema = z.string().max(10_000_000);
/** Schema of a name or id in a conversation. */
export const nameSchema = z.string().min(1).max(256);
/** Schema of the id of a tool call. Some providers send an empty id, and callers send it back. */
export const callIdSchema = z.string().max(256);
/** Schema of the name of a tool. */
export const toolNameSchema = z
  .string()
  .max(128)
  .regex(/^[\w.-]{1,128}$/, 'must be 1–128 characters of A–Z a–z 0–9 _ . -');
/** Schema of the id of a model. */
export const modelIdSchema = z.string().min(1).max(256);
/** Maximum number of fallback models. Each failed model adds its response time to the request. */
const fallbacksMax = 4;
/** Schema of the ids of fallback models. */
export const fallbacksSchema = z.array(modelIdSchema).max(fallbacksMax).nullish().meta({
  description: 'Fallback models, called in this order until one succeeds, if `model` fails.',
});
/** Schema of the URL or base64 data of a file. Its maximum length is that of a request. */
export const fileSourceSchema = z
  .string()
  .min(1)
  .max(20 * 1024 * 1024);
/** Schema of the id of an uploaded file of the caller's organization. */
export const fileIdSchema = z
  .string()
  .max(256)
  .regex(
    idPattern('upload'),
    'must be the id of an uploaded file (POST /api/v1/storage/upload-url)',
  );

/**
 * Schema of `cache_control`, which marks the end of a prompt prefix to cache. The only allowed TTL
 * is `5m`, because the gateway has no price for other ones.
 */
export const cacheControlSchema = z
  .object({
    type: z.literal('ephemeral'),
    ttl: z.literal('5m', 'must be 5m: a longer TTL is not available').nullish(),
  })
  .transform(({ type }) => ({ type }));
/** Field `cache_control` of a part, a tool or a message. Null means the same as a missing field. */
export const cacheControlField = { cache_control: cacheControlSchema.nullish() };

/**
 * Creates the schema of a field that is rejected, because ignoring it would change the answer. An
 * empty list changes nothing.
 */
export const createRejectedField = (reason: string) =>
  z.union([z.null(), z.array(z.never()).max(0)], `is not supported: ${reason}`).optional();

/** Message of a choice that demands a tool of a request that has none. */
export const requiresTools = 'requires tools';

/** Schema of the mode of OpenAI's choice among some of the tools. */
export const allowedMode = z.enum(['auto', 'required']);

/**
 * Returns the tools that a request allows the model to call, with the mode as its choice. The model
 * receives no other tools.
 * @throws GatewayError INVALID_REQUEST for a name that is not that of a tool, and for the mode
 * `required` without tools
 */
export function selectAllowedTools(
  tools: readonly Tool[],
  mode: z.infer<typeof allowedMode>,
  allowed: readonly { name: string; path: string }[],
): Pick<ChatBody, 'tools' | 'tool_choice'> {
  const names = new Set(tools.map((tool) => tool.function.name));
  const unknown = allowed.find(({ name }) => !names.has(name));
  if (unknown) throw fieldError('INVALID_REQUEST', unknown.path, 'is not the name of a tool');
  const allowedNames = new Set(allowed.map(({ name }) => name));
  const selected = tools.filter((tool) => allowedNames.has(tool.function.name));
  if (selected.length > 0) return { tools: selected, tool_choice: mode };
  if (mode === 'auto') return {};
  throw fieldError('INVALID_REQUEST', 'tool_choice', requiresTools);
}

type Part = z.core.$ZodTypeDiscriminable;

/** Creates the schema of a list of message parts. Its error message lists the allowed types. */
export function createPartsSchema<Parts extends readonly [Part, ...Part[]]>(...parts: Parts) {
  const types = parts.flatMap(({ _zod: { propValues } }) => [...(propValues?.['type'] ?? [])]);
  const part = z.discriminatedUnion('type', parts, { error: `must be one of ${types.join(', ')}` });
  return z.array(part).max(1024);
}

/** Adds their paths to the parts of a content. */
export function locateParts(
  content: string | readonly PartContent[],
  path: string,
): string | ContentPart[] {
  if (typeof content === 'string') return content;
  return content.map((part, index) => ({ ...part, path: `${path}.${index}` }));
}

type WithoutNulls<Fields> = { [Field in keyof Fields]?: NonNullable<Fields[Field]> };

/**
 * Removes null and undefined fields from an object, because no provider accepts `null` in every
 * field.
 */
export function withoutNulls<Fields extends object>(fields: Fields): WithoutNulls<Fields> {
  const entries = Object.entries(fields).filter(([, value]) => value != null);
  // oxlint-disable-next-line no-unsafe-type-assertion -- only entries without a value were removed
  return Object.fromEntries(entries) as WithoutNulls<Fields>;
}

/** Tool call, or a piece of a streamed tool call. */
export interface ToolCallPiece {
  index: number;
  id: string;
  name: string;
  json: string;
  /** `extra_content` to send back with the call, such as a thought signature. Null if none. */
  extraContent: JsonObject | null;
}

/** Returns the tool calls in the first choice of a completion or chunk. */
export function readToolCalls(answer: unknown): ToolCallPiece[] {
  const message = readFirstMessage(answer);
  const calls = Array.isArray(message['tool_calls']) ? message['tool_calls'].filter(isRecord) : [];
  return calls.map((call, position) => {
    const { index } = call;
    const fields = asRecord(call['function']);
    return {
      index: typeof index === 'number' ? index : position,
      id: asText(call['id']),
      name: asText(fields['name']),
      json: asText(fields['arguments']),
      extraContent: anyJsonObject.safeParse(call['extra_content']).data ?? null,
    };
  });
}

/** Returns the message or the delta of the first choice, or an empty object if there is none. */
export function readFirstMessage(answer: unknown): Record<string, unknown> {
  const { choices } = asRecord(answer);
  const [first] = Array.isArray(choices) ? choices.filter(isRecord) : [];
  return asRecord(first?.['message'] ?? first?.['delta']);
}

/** Fields that identify a request. */
export const tagFields = { metadata: metadataSchema.nullish(), endUser: endUserField };

/**
 * Converts the fields that identify a request. OpenAI's `safety_identifier`, and `user` before it, name
 * the end user too.
 */
export function convertTags(wire: {
  metadata?: Record<string, string> | null | undefined;
  endUser?: string | null | undefined;
  safety_identifier?: string | null | undefined;
  user?: string | null | undefined;
}): Pick<ChatRequest, 'metadata' | 'endUserDefault'> {
  const endUserDefault = readClientUser(wire.safety_identifier ?? wire.user);
  return {
    metadata: addEndUser(nullIfEmpty(wire.metadata), wire.endUser ?? null),
    ...(endUserDefault !== null && { endUserDefault }),
  };
}

/** Fields of a chat job, whose answer does not end with the connection. */
export const jobFields = {
  async: z
    .boolean()
    .nullish()
    .meta({ description: 'True to start a job: the response has status 202 and its `statusUrl`.' }),
  webhookUrl: z.string().max(2048).nullish().meta({
    description:
      'HTTPS URL that receives the end of the job (docs/webhooks.md). Requires `async: true`.',
  }),
  webhookEvents: z
    .array(z.enum(['completed', 'failed', 'canceled']))
    .min(1)
    .max(3)
    .nullish()
    .meta({ description: 'Events that are sent to `webhookUrl`; all by default.' }),
};

export type JobFields = Partial<z.infer<z.ZodObject<typeof jobFields>>>;

/** Adds the errors of fields that a chat job does not have, or that only a chat job has. */
export function checkJobFields(
  { async, stream, webhookUrl, webhookEvents }: JobFields & { stream?: boolean | null | undefined },
  context: z.RefinementCtx,
): void {
  const addIssue = (field: string, message: string): void =>
    context.addIssue({ code: 'custom', path: [field], message });
  if (async && stream) addIssue('stream', 'must not be true with async: true');
  for (const [field, value] of Object.entries({ webhookUrl, webhookEvents }))
    if (!async && value != null) addIssue(field, 'requires async: true');
}

/** Converts the fields of a chat job. */
export function convertJobFields({
  async,
  webhookUrl,
  webhookEvents,
}: JobFields): Partial<ChatRequest> {
  if (!async) return {};
  return { background: true, webhook: withoutNulls({ webhookUrl, webhookEvents }) };
}
